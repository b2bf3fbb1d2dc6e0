// Histories to start from when there is none: a few items of the catalogue that share a value of an attribute.

import { ask } from "./api.js";
import { byId, make } from "./dom.js";
import { cell, textAttributes, titleOf } from "./words.js";

const SAMPLES = 3;
const ITEMS = 3; // in a sample
const READ = 100; // items among which samples are looked for

/** Offer samples; ``choose(items)`` is called with the chosen one. Without any, the page does not mention them. */
export async function offerSamples(info, choose) {
  const { items } = await ask(`v1/items?${new URLSearchParams({ limit: READ })}`);
  const buttons = samplesOf(items, info).map(([name, sample]) => {
    const titles = sample.map(titleOf).join(", ");
    const button = make("button", { type: "button" }, make("span", { class: "name" }, cell(name) ?? titles));
    if (name !== null) button.append(make("span", { class: "byline" }, titles));
    button.addEventListener("click", () => choose(sample));
    return make("li", {}, button);
  });
  byId("sample-list").replaceChildren(...buttons);
  byId("samples").dataset.found = String(buttons.length);
}

/** Pairs of a name and items: by the first attribute that three values of share, otherwise the first items. */
function samplesOf(items, info) {
  const others = textAttributes().filter((name) => name !== info.title && name !== info.group);
  for (const name of [info.group, ...others].filter((name) => name !== null)) {
    const groups = [...grouped(items, name)].filter(([, members]) => members.length >= ITEMS);
    if (groups.length >= SAMPLES) return groups.slice(0, SAMPLES).map(([value, sample]) => [value, sample.slice(0, ITEMS)]);
  }
  const starts = Array.from({ length: SAMPLES }, (_, at) => at * ITEMS);
  return starts.map((start) => [null, items.slice(start, start + ITEMS)]).filter(([, sample]) => sample.length === ITEMS);
}

function grouped(items, name) {
  const groups = new Map();
  for (const item of items) {
    const value = item.attributes[name];
    if (value) groups.set(value, [...(groups.get(value) ?? []), item]);
  }
  return groups;
}
