// The history as a list of chips, each with a button to remove it.

import { byId, make, refill } from "./dom.js";
import { titleOf } from "./words.js";

export function showHistory(items, remove) {
  const chips = byId("chips");
  refill(chips, ...items.map((item) => chip(item, () => removed(item, remove))));
  byId("clear").hidden = items.length < 2;
}

function chip(item, onRemove) {
  const title = titleOf(item);
  const button = make("button", { type: "button", "aria-label": `Remove ${title}` }, "×");
  button.addEventListener("click", onRemove);
  return make("li", {}, make("span", {}, title), button);
}

function removed(item, remove) {
  remove(item);
  if (byId("chips").childElementCount === 0) byId("search").focus();
}
