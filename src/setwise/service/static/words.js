// Names and numbers as text: an item by its title if it has one, otherwise by its id.

let info = { title: null, group: null, attributes: [] };

export function useInfo(newInfo) {
  info = newInfo;
}

const CONTROLS = /[\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu; // line ends, and marks of direction, which would move what is around
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** A value as a line of text, or null if there is nothing to read. */
function text(value) {
  const plain = value === null || value === undefined ? "" : String(value).replace(CONTROLS, " ").trim();
  return plain === "" ? null : plain;
}

/** At most so many letters; a text that runs from right to left is isolated from the sentence around it. */
function short(words, letters) {
  const all = [...words];
  const cut = all.length > letters ? `${all.slice(0, letters - 1).join("")}…` : words;
  return RIGHT_TO_LEFT.test(cut) ? `\u2068${cut}\u2069` : cut;
}

export const titleOf = (item) =>
  short(text(info.title && item.attributes?.[info.title]) ?? text(item.id) ?? "(no title)", TITLE_LETTERS);

const KNOWN = ["artist", "author", "brand", "course", "category", "genre", "year", "price"]; // shown first, in this order
const SHOWN = 4; // attributes in a byline
const LETTERS = 60; // of one of them
const TITLE_LETTERS = 120;

export const textAttributes = () => info.attributes.filter((one) => one.kind === "text").map((one) => one.name);

/** The attributes that people know an item by, then other texts; null if there are none. */
export function bylineOf(item) {
  const known = KNOWN.map((name) => info.attributes.find((one) => one.kind !== "url" && one.name.toLowerCase() === name)?.name);
  const names = [...new Set([...known, ...textAttributes()])].filter((name) => name && name !== info.title);
  const words = names.map((name) => cell(item.attributes?.[name], name)).filter((word) => word !== null);
  return words.length ? words.slice(0, SHOWN).join(" · ") : null;
}

/** A value of an attribute as a short text; a price, which has no currency, and a code such as 5815 have its name. */
export function cell(value, name = "") {
  const word = typeof value !== "number" ? text(value) : Number.isInteger(value) ? String(value) : value.toFixed(2);
  const code = name !== "" && typeof value === "string" && /^\d+$/.test(word ?? "") && !/year/i.test(name);
  if (word !== null && (code || name.toLowerCase() === "price")) return short(`${name} ${word}`, LETTERS);
  return word && short(word, LETTERS);
}

/** What an item can be found by: "title, artist or genre". */
export function findable() {
  const names = [...new Set([info.title ?? "id", ...textAttributes()])].slice(0, 4);
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}` : names[0];
}

export const noun = () => (info.attributes.some((one) => one.name.toLowerCase() === "artist") ? "song" : "item");

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
