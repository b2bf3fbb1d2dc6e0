// Requests to the service: ask the user for a key after 401, wait after 429 and 503, and report other errors.

import { byId } from "./dom.js";
import { read, written } from "./json.js";

const KEY = "setwise-key";
const RETRIES = 10; // after 429 or 503
const LONGEST_WAIT = 30; // seconds, even if Retry-After is longer

/** An error response; the message is that of the service. */
export class ServiceError extends Error {}

/** The JSON response to a GET request, or to a POST request if there is a body. */
export async function ask(path, { body, signal, onBusy } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const response = await send(path, body, signal);
    if (response.ok) return read(await response.text());
    const message = await errorMessage(response);
    if (response.status === 401) {
      if (!(await newKey(message))) throw new ServiceError(message);
    } else if ([429, 503].includes(response.status) && attempt < RETRIES) {
      const seconds = waitOf(response);
      onBusy?.(seconds);
      await pause(1000 * seconds, signal);
    } else {
      throw new ServiceError(message);
    }
  }
}

async function send(path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method: body ? "POST" : "GET", headers, body: body && written(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("The service cannot be reached. Is it running?");
  }
}

async function errorMessage(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The service answered with status ${response.status} and no message.`;
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

let openDialog = null; // several requests may receive 401 at the same time; they share one dialog

function newKey(message) {
  openDialog ??= keyFromDialog(message).finally(() => {
    openDialog = null;
  });
  return openDialog;
}

/** Resolves to whether a key was entered. */
function keyFromDialog(message) {
  const dialog = byId("key-dialog");
  const field = byId("key");
  byId("key-text").textContent = message;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    byId("key-form").onsubmit = () => sessionStorage.setItem(KEY, field.value.trim());
    byId("key-cancel").onclick = () => dialog.close("");
    dialog.onclose = () => resolve(dialog.returnValue === "given");
  });
}
