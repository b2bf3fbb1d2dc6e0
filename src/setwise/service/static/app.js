// The explorer: a history, two sliders, and the response of the service. A new request cancels the previous one.

import { ask } from "./api.js";
import { prepareAttention, showAttention } from "./attention.js";
import { aside, byId } from "./dom.js";
import { showHistory } from "./history.js";
import { showRivals } from "./rivals.js";
import { Search } from "./search.js";
import { showSlate, spent, valueDecimals, verdict } from "./slate.js";
import { fromAddress, NO_LIMIT, toAddress } from "./state.js";
import { duration, figure, many, one, useInfo } from "./words.js";

const PAUSE = 180; // milliseconds without input before a request is sent
const MOST = 100; // items in one response of the service
const LONGEST = 20; // items in a slate on this page, as four methods compute one while the user waits

let info = null;
let state = { history: [], k: 10, atMost: NO_LIMIT }; // the history as items
let pending = null; // the AbortController of the running request
let timer = null;

async function start() {
  try {
    info = await ask("v1/info", { onBusy: showBusy });
    useInfo(info);
    describeCatalog();
    await restore();
  } catch (error) {
    showTrouble(error);
  }
}

function describeCatalog() {
  byId("about").textContent = `${many(info.items)} · ${many(info.heads, "head")} · model ${info.version}`;
  byId("search-label").textContent = `Find ${one()} by ${info.title ? "title" : "id"}`;
  byId("empty").textContent = `Add ${one()} to begin. Until then the slate is that of a user without a history.`;
  byId("k").max = longest();
  byId("limit").hidden = info.group === null;
  byId("at-most-label").textContent = `At most per ${info.group}`;
}

const longest = () => Math.min(LONGEST, info.limits.k);

/** Restore the state from the address, with titles from the service. */
async function restore() {
  const { history, k, atMost } = fromAddress(longest());
  state = { history: await fetchItems(history), k, atMost };
  changed(0);
}

async function fetchItems(ids) {
  const found = new Map();
  for (let start = 0; start < ids.length; start += MOST) {
    const wanted = new URLSearchParams({ ids: ids.slice(start, start + MOST).join(","), limit: MOST });
    const { items } = await ask(`v1/items?${wanted}`, { onBusy: showBusy });
    items.forEach((item) => found.set(item.id, item));
  }
  return ids.map((id) => found.get(id) ?? { id, attributes: {} });
}

function add(item) {
  if (state.history.some((one) => one.id === item.id)) return;
  state.history.push(item);
  changed();
}

function remove(item) {
  state.history = state.history.filter((one) => one !== item);
  changed();
}

/** The state has changed: show it, store it in the address, and request its slate after a pause. */
function changed(pause = PAUSE) {
  toAddress({ ...state, history: state.history.map((item) => item.id) });
  showHistory(state.history, remove);
  byId("empty").hidden = state.history.length > 0;
  setSlider("k", state.k, many(state.k));
  setSlider("at-most", state.atMost, state.atMost === NO_LIMIT ? "no limit" : String(state.atMost));
  byId("answer").setAttribute("aria-busy", "true");
  clearTimeout(timer);
  timer = setTimeout(refresh, pause);
}

function setSlider(slider, value, words) {
  byId(slider).value = value;
  byId(slider).setAttribute("aria-valuetext", words);
  byId(`${slider}-text`).textContent = words;
}

async function refresh() {
  pending?.abort();
  pending = new AbortController();
  const { signal } = pending;
  try {
    const answer = await ask("v1/explain", { body: request(), signal, onBusy: showBusy });
    if (!signal.aborted) show(answer);
  } catch (error) {
    if (!signal.aborted) {
      document.querySelectorAll(".card").forEach((card) => (card.hidden = true)); // the cards show the previous request
      showTrouble(error);
    }
  }
}

function request() {
  const body = { history: state.history.map((item) => item.id), k: state.k };
  if (info.group !== null && state.atMost !== NO_LIMIT) body.at_most = { [info.group]: state.atMost };
  return body;
}

function show(answer) {
  showSlate(answer, info.items, add);
  showAttention(answer);
  showRivals(answer);
  byId("trouble").hidden = true;
  byId("answer").setAttribute("aria-busy", "false");
  const { slate } = answer;
  byId("status").replaceChildren(
    `${many(slate.items.length)} in ${duration(spent(slate))}`,
    aside(`, value ${figure(slate.value, valueDecimals(slate))}. ${verdict(slate, info.items)}`),
    slate.ignored.length ? ` Not in the catalogue, so ignored: ${slate.ignored.join(", ")}.` : "",
  );
}

function showTrouble(error) {
  byId("trouble-text").textContent = error.message;
  byId("trouble").hidden = false;
  byId("status").textContent = "";
  byId("answer").setAttribute("aria-busy", "false");
}

function showBusy(seconds) {
  byId("status").textContent = `The service is busy. Trying again in ${many(seconds, "second")}.`;
}

function listen() {
  new Search({
    choose: add,
    taken: () => new Set(state.history.map((item) => item.id)),
    undo: () => state.history.length && remove(state.history.at(-1)),
    onTrouble: showTrouble,
  });
  prepareAttention();
  byId("k").addEventListener("input", (event) => {
    state.k = Number(event.target.value);
    changed();
  });
  byId("at-most").addEventListener("input", (event) => {
    state.atMost = Number(event.target.value);
    changed();
  });
  byId("clear").addEventListener("click", () => {
    state.history = [];
    changed();
    byId("search").focus();
  });
  byId("again").addEventListener("click", () => (info ? changed(0) : start()));
  window.addEventListener("hashchange", () => info && restore().catch(showTrouble));
}

listen();
start();
