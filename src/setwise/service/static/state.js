// The state in the address, so that it can be shared as a link: #history=["a",7]&include=["b"]&where={"genre":["jazz"]}&k=8.

import { readWhere } from "./filters.js";
import { read, written } from "./json.js";

export const NO_LIMIT = 6; // the last position of the slider
export const LISTS = ["history", "include", "exclude"];

/** ``k``: the length of a slate where the address names none. */
export function fromAddress(k, longest) {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    ...Object.fromEntries(LISTS.map((list) => [list, idsIn(given.get(list))])),
    ...readWhere(given.get("where")),
    k: within(given.get("k"), 1, longest, k),
    atMost: within(given.get("at_most"), 1, NO_LIMIT, NO_LIMIT),
  };
}

/** ``push``: as a new entry of the browser's history, so that Back undoes the change. */
export function toAddress(state, push) {
  const fields = new URLSearchParams();
  for (const list of LISTS) {
    if (state[list].length) fields.set(list, written(state[list].map((item) => item.id)));
  }
  if (Object.keys(state.where).length) fields.set("where", JSON.stringify(state.where));
  fields.set("k", state.k);
  if (state.atMost !== NO_LIMIT) fields.set("at_most", state.atMost);
  if (`#${fields}` === location.hash) return;
  if (push) window.history.pushState(null, "", `#${fields}`);
  else window.history.replaceState(null, "", `#${fields}`);
}

/** Ids as JSON, because 7 and "7" are different ids; an empty list if the text is not a list of ids. */
function idsIn(text) {
  try {
    const list = read(text ?? "[]");
    const ids = Array.isArray(list) ? list.filter(isId) : [];
    return [...new Set(ids)];
  } catch {
    return [];
  }
}

const isId = (given) => ["string", "bigint"].includes(typeof given) || Number.isSafeInteger(given);

function within(text, low, high, otherwise) {
  const number = Number.parseInt(text, 10);
  return Number.isNaN(number) ? otherwise : Math.min(high, Math.max(low, number));
}
