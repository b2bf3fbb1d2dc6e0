// Lists of chips: the history, the items kept in the slate and the items left out, each with a button to remove it.

import { byId, make, refill } from "./dom.js";
import { titleOf } from "./words.js";

/** ``verb`` begins the name of each button: "Remove" and the title. */
export function showChips(list, items, remove, verb) {
  refill(byId(list), ...items.map((item) => chip(item, verb, () => removed(list, item, remove))));
}

function chip(item, verb, onRemove) {
  const title = titleOf(item);
  const button = make("button", { type: "button", "aria-label": `${verb} ${title}` }, "×");
  button.addEventListener("click", onRemove);
  return make("li", {}, make("span", {}, title), button);
}

function removed(list, item, remove) {
  remove(item);
  if (byId(list).childElementCount === 0) byId("search").focus();
}
