// The explorer: a history, two sliders, and whatever the service says to them. The last answer wins.

import { ask } from "./api.js";
import { prepareAttention, showAttention } from "./attention.js";
import { aside, byId } from "./dom.js";
import { showHistory } from "./history.js";
import { showRivals } from "./rivals.js";
import { Search } from "./search.js";
import { showSlate, spent, valueDecimals, verdict } from "./slate.js";
import { fromAddress, NO_LIMIT, toAddress } from "./state.js";
import { duration, figure, many, one, speakOf } from "./words.js";

const PAUSE = 180; // milliseconds of rest before the service is asked
const MOST = 100; // items whose titles the service tells at once
const LONGEST = 20; // items in a slate on this page, where four methods are to answer while one waits

let info = null;
let state = { history: [], k: 10, atMost: NO_LIMIT }; // the history as items
let asked = null; // the AbortController of the request under way
let timer = null;

async function start() {
  try {
    info = await ask("v1/info", { onBusy: sayBusy });
    speakOf(info);
    introduce();
    await restore();
  } catch (error) {
    showTrouble(error);
  }
}

function introduce() {
  byId("about").textContent = `${many(info.items)} · ${many(info.heads, "head")} · model ${info.version}`;
  byId("search-label").textContent = `Find ${one()} by ${info.title ? "title" : "id"}`;
  byId("empty").textContent = `Add ${one()} to begin. Until then, the slate is what a newcomer would be shown.`;
  byId("k").max = longest();
  byId("limit").hidden = info.group === null;
  byId("at-most-label").textContent = `At most per ${info.group}`;
}

const longest = () => Math.min(LONGEST, info.limits.k);

/** The state that the address asks for, with titles from the service. */
async function restore() {
  const { history, k, atMost } = fromAddress(longest());
  state = { history: await known(history), k, atMost };
  changed(0);
}

async function known(ids) {
  const found = new Map();
  for (let start = 0; start < ids.length; start += MOST) {
    const wanted = new URLSearchParams({ ids: ids.slice(start, start + MOST).join(","), limit: MOST });
    const { items } = await ask(`v1/items?${wanted}`, { onBusy: sayBusy });
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

/** The state has changed: show it, keep it in the address, and ask for its slate after a moment. */
function changed(pause = PAUSE) {
  toAddress({ ...state, history: state.history.map((item) => item.id) });
  showHistory(state.history, remove);
  byId("empty").hidden = state.history.length > 0;
  say("k", state.k, many(state.k));
  say("at-most", state.atMost, state.atMost === NO_LIMIT ? "no limit" : String(state.atMost));
  byId("answer").setAttribute("aria-busy", "true");
  clearTimeout(timer);
  timer = setTimeout(refresh, pause);
}

function say(slider, value, words) {
  byId(slider).value = value;
  byId(slider).setAttribute("aria-valuetext", words);
  byId(`${slider}-said`).textContent = words;
}

async function refresh() {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  try {
    const answer = await ask("v1/explain", { body: request(), signal, onBusy: sayBusy });
    if (!signal.aborted) show(answer);
  } catch (error) {
    if (!signal.aborted) {
      document.querySelectorAll(".card").forEach((card) => (card.hidden = true)); // they answer another question
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
    aside(`, worth ${figure(slate.value, valueDecimals(slate))}. ${verdict(slate, info.items)}`),
  );
}

function showTrouble(error) {
  byId("trouble-words").textContent = error.message;
  byId("trouble").hidden = false;
  byId("status").textContent = "";
  byId("answer").setAttribute("aria-busy", "false");
}

function sayBusy(seconds) {
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
