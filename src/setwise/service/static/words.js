// Names and numbers as text: an item by its title if it has one, otherwise by its id.

let info = { title: null, group: null, attributes: [] };

export function useInfo(newInfo) {
  info = newInfo;
}

const text = (value) => (value === null || value === undefined || value === "" ? null : String(value));

export const titleOf = (item) => text(info.title && item.attributes?.[info.title]) ?? String(item.id);

const KNOWN = ["artist", "author", "brand", "course", "category", "genre", "year", "price"]; // shown first, in this order
const SHOWN = 3; // attributes in a byline
const LETTERS = 60; // of one of them

export const textAttributes = () => info.attributes.filter((one) => one.kind === "text").map((one) => one.name);

/** The attributes that people know an item by, then other texts; null if there are none. Addresses are not texts. */
export function bylineOf(item) {
  const known = KNOWN.filter((name) => info.attributes.some((one) => one.name === name));
  const names = [...new Set([...known, ...textAttributes()])].filter((name) => name !== info.title);
  const words = names.map((name) => cell(item.attributes?.[name])).filter((word) => word && !/^https?:/.test(word));
  return words.length ? words.slice(0, SHOWN).join(" · ") : null;
}

function cell(value) {
  const word = typeof value === "number" && !Number.isInteger(value) ? value.toFixed(2) : text(value);
  return word && word.length > LETTERS ? `${word.slice(0, LETTERS - 1)}…` : word;
}

/** What an item can be found by: "title, artist or genre". */
export function findable() {
  const names = [...new Set([info.title ?? "id", ...textAttributes()])].slice(0, 4);
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}` : names[0];
}

export const noun = () => (info.attributes.some((one) => one.name === "artist") ? "song" : "item");

export const one = () => (noun() === "item" ? "an item" : `a ${noun()}`);

export const many = (n, word = noun()) => `${n.toLocaleString("en-GB")} ${word}${n === 1 ? "" : "s"}`;

/** The number of decimals that keeps figures of this size distinct. */
export function decimalsOf(figures, least = 2) {
  const largest = Math.max(...figures.map(Math.abs), Number.MIN_VALUE);
  if (largest >= 1000) return 0;
  return Math.min(9, Math.max(least, least - 1 - Math.floor(Math.log10(largest))));
}

export function figure(value, decimals = 3) {
  const written = value.toLocaleString("en-GB", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return minus(/[1-9]/.test(written) ? written : written.replace("-", ""));
}

export function signed(value, decimals = 2) {
  const written = figure(value, decimals);
  return value > 0 && /[1-9]/.test(written) ? `+${written}` : written;
}

export const percent = (share) => minus(`${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`);

export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}

const minus = (written) => written.replace("-", "−");
