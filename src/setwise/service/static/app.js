// The explorer: a history, items to keep or to leave out, filters, sliders, and the answer. A change is a step Back undoes.

import { answer, supersede } from "./answer.js";
import { ask } from "./api.js";
import { prepareAttention } from "./attention.js";
import { showChips } from "./chips.js";
import { byId } from "./dom.js";
import { showEffects } from "./effects.js";
import { offerFilters, showFilters } from "./filters.js";
import { about, showHelp } from "./help.js";
import { fetchItems, forget, isUnknown, itemsOf, remember } from "./items.js";
import { prepareLink } from "./link.js";
import { usePictures } from "./pictures.js";
import { offerSamples } from "./samples.js";
import { Search } from "./search.js";
import { showBusy, showPending, showTrouble, showing } from "./show.js";
import { fromAddress, LISTS, NO_LIMIT, toAddress } from "./state.js";
import { findable, many, one, useInfo } from "./words.js";

const PAUSE = 180; // milliseconds without input before a request is sent
const LONGEST = 20; // items in a slate on this page

let info = null;
let state = { history: [], include: [], exclude: [], where: {}, k: 10, atMost: NO_LIMIT }; // lists of items
let turn = 0; // counts changes of the state
let timer = null;
let renewed = false; // the catalogue was described again since somebody has last asked for an answer

async function start() {
  supersede();
  showPending();
  forget(); // another artifact may be served
  try {
    info = await ask("v1/info", { onBusy: showBusy });
    useInfo(info);
    usePictures(info);
    offerFilters(info, filter);
    describeCatalog();
    showEffects(info);
    if (!isOfFeatures()) offerSamples(info, startFrom).catch(() => {}); // the page does without
    await restore();
  } catch (error) {
    showTrouble(error);
  }
}

/** Whether users of this model are known by features instead of a history. */
const isOfFeatures = () => !info.understands_history && info.features.length > 0;

/** Another artifact is served: describe it, and ask it again; once only, as services of two artifacts may answer in turn. */
function renew() {
  if (renewed) return;
  renewed = true;
  start();
}

function describeCatalog() {
  byId("about").textContent = `${many(info.items)} · ${many(info.heads, "head")} · model ${info.version}`;
  byId("what").textContent = about(info);
  showHelp(info);
  byId("search-label").textContent = `Find ${one()} by ${findable()}`;
  byId("empty").textContent = `Add ${one()} to begin. Until then the slate is that of a user without a history.`;
  byId("ask-heading").textContent = isOfFeatures() ? "Features" : "History";
  byId("features").textContent = `Users of this model have features: ${info.features.join(", ")}. This page knows none of them and \
asks for an average user; POST /v1/recommend takes {"features": {"name": number}}.`;
  byId("features").hidden = !isOfFeatures();
  byId("finder").hidden = isOfFeatures();
  byId("k").max = longest();
  byId("limit").hidden = info.group === null;
  byId("at-most-label").textContent = `At most per ${info.group}`;
}

const longest = () => Math.min(LONGEST, info.limits.k, info.limits.slow_k);

/** Restore the state from the address; ids and filters that the catalogue does not have are left out, with a note. */
async function restore() {
  const mine = (turn += 1);
  const { unknown, ...read } = fromAddress(Math.min(info.limits.page_k, longest()), longest());
  const ids = LISTS.flatMap((list) => read[list]);
  await fetchItems(ids, showBusy);
  if (mine !== turn) return; // the state has changed in the meantime
  if (isOfFeatures()) read.history = [];
  state = { ...read, ...Object.fromEntries(LISTS.map((list) => [list, itemsOf(read[list])])) };
  changed({ pause: 0, push: false, unknown: [...ids.filter(isUnknown), ...unknown] });
}

const without = (items, item) => items.filter((other) => other.id !== item.id);
const has = (items, item) => items.some((other) => other.id === item.id);

/** Put the item in one of the lists and take it out of the others. */
function put(list, item) {
  if (has(state[list], item)) return;
  remember([item]);
  for (const other of LISTS) state[other] = without(state[other], item);
  state[list].push(item);
  changed();
}

function take(list, item) {
  state[list] = without(state[list], item);
  changed();
}

function filter(where) {
  state.where = where;
  changed();
}

function startFrom(items) {
  remember(items);
  state.history = [...items];
  changed();
  byId("search").focus();
}

const actions = {
  add: (item) => put("history", item),
  canAdd: () => !isOfFeatures(),
  keep: (item) => (has(state.include, item) ? take("include", item) : put("include", item)),
  remove: (item) => put("exclude", item),
  isKept: (item) => has(state.include, item),
  renew,
};

/** The state has changed: show it, store it in the address, and request its slate after a pause. */
function changed({ pause = PAUSE, push = true, unknown = [] } = {}) {
  turn += 1;
  if (push) renewed = false;
  state.k = Math.min(longest(), Math.max(state.k, state.include.length)); // there is room for what is kept
  toAddress(state, push);
  showChips("chips", state.history, (item) => take("history", item), "Remove");
  showChips("include", state.include, (item) => take("include", item), "No longer keep");
  showChips("exclude", state.exclude, (item) => take("exclude", item), "Allow again");
  showFilters(state.where, filter);
  byId("kept").hidden = state.include.length === 0;
  byId("removed").hidden = state.exclude.length === 0;
  byId("clear").hidden = state.history.length < 2;
  for (const part of ["empty", "samples"]) byId(part).hidden = isOfFeatures() || state.history.length > 0;
  setSlider("k", state.k, many(state.k));
  setSlider("at-most", state.atMost, state.atMost === NO_LIMIT ? "no limit" : String(state.atMost));
  const body = request();
  const shows = showing({ info, body, actions, unknown });
  clearTimeout(timer);
  timer = setTimeout(() => answer(body, info.limits, shows), pause);
}

function setSlider(slider, value, words) {
  byId(slider).value = value;
  byId(slider).setAttribute("aria-valuetext", words);
  byId(`${slider}-text`).textContent = words;
}

function request() {
  const [history, include, exclude] = LISTS.map((list) => state[list].map((item) => item.id));
  const body = { ...(isOfFeatures() ? { features: {} } : { history }), k: state.k };
  if (include.length) body.include = include;
  if (exclude.length) body.exclude = exclude;
  if (Object.keys(state.where).length) body.where = state.where;
  if (info.group !== null && state.atMost !== NO_LIMIT) body.at_most = { [info.group]: state.atMost };
  return body;
}

/** The positions that a drag passes are one step for Back. */
function listenToSlider(slider, field) {
  let dragged = false;
  byId(slider).addEventListener("input", (event) => {
    state[field] = Number(event.target.value);
    changed({ push: !dragged });
    dragged = true;
  });
  byId(slider).addEventListener("change", () => (dragged = false));
}

function listen() {
  new Search({
    choose: actions.add,
    taken: () => new Set(state.history.map((item) => item.id)),
    undo: () => state.history.length && take("history", state.history.at(-1)),
    onTrouble: showTrouble,
  });
  prepareAttention();
  prepareLink();
  listenToSlider("k", "k");
  listenToSlider("at-most", "atMost");
  byId("clear").addEventListener("click", () => {
    state.history = [];
    changed();
    byId("search").focus();
  });
  byId("again").addEventListener("click", start);
  byId("longer").addEventListener("click", () => (renewed = false));
  window.addEventListener("popstate", () => {
    renewed = false;
    if (info) restore().catch(showTrouble);
  });
}

listen();
start();
