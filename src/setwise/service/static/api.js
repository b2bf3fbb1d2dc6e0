// Talking to the service: asks for the key when one is needed, waits when it is busy, and passes on what it says.

import { byId } from "./dom.js";

const KEY = "setwise-key";
const PATIENCE = 10; // times that a busy service is asked again
const LONGEST_WAIT = 30; // seconds, whatever Retry-After says

/** The service said no; the message is its own sentence. */
export class Refused extends Error {}

/** The JSON answer to a GET, or to a POST where there is a body. */
export async function ask(path, { body, signal, onBusy } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const response = await send(path, body, signal);
    if (response.ok) return response.json();
    const sentence = await sentenceOf(response);
    if (response.status === 401) {
      if (!(await newKey(sentence))) throw new Refused(sentence);
    } else if (response.status === 503 && attempt < PATIENCE) {
      const seconds = waitOf(response);
      onBusy?.(seconds);
      await pause(1000 * seconds, signal);
    } else {
      throw new Refused(sentence);
    }
  }
}

async function send(path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service cannot be reached. Is it running?");
  }
}

async function sentenceOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The service answered ${response.status} and no more.`;
  }
}

const waitOf = (response) => Math.min(LONGEST_WAIT, Math.max(1, Number(response.headers.get("Retry-After")) || 1));

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

let asking = null; // several requests may meet a 401 at once; one dialog serves them all

function newKey(sentence) {
  asking ??= keyFromDialog(sentence).finally(() => {
    asking = null;
  });
  return asking;
}

/** Whether a key was given. */
function keyFromDialog(sentence) {
  const dialog = byId("key-dialog");
  const field = byId("key");
  byId("key-words").textContent = sentence;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    byId("key-form").onsubmit = () => sessionStorage.setItem(KEY, field.value.trim());
    byId("key-cancel").onclick = () => dialog.close("");
    dialog.onclose = () => resolve(dialog.returnValue === "given");
  });
}
