// Items by id, with their attributes, from the service; what was fetched is kept.

import { ask } from "./api.js";
import { written } from "./json.js";

const MOST = 100; // items in one response of the service

const known = new Map();

export const forget = () => known.clear();

export const remember = (items) => items.forEach((item) => known.set(item.id, item));

/** Fetch the items of these ids that are not known yet. */
export async function fetchItems(ids, onBusy) {
  const missing = ids.filter((id) => !known.has(id));
  for (let start = 0; start < missing.length; start += MOST) {
    const wanted = new URLSearchParams({ ids: written(missing.slice(start, start + MOST)), limit: MOST });
    remember((await ask(`v1/items?${wanted}`, { onBusy })).items);
  }
}

/** The items of these ids, without those that are not in the catalogue. */
export const itemsOf = (ids) => ids.filter((id) => !isUnknown(id)).map((id) => known.get(id));

export const isUnknown = (id) => !known.has(id);
