// Names and numbers as text: an item by its title if it has one, otherwise by its id.

let info = { title: null, group: null, attributes: [] };

export function useInfo(newInfo) {
  info = newInfo;
}

const text = (value) => (value === null || value === undefined || value === "" ? null : String(value));

export const titleOf = (item) => text(info.title && item.attributes?.[info.title]) ?? String(item.id);

/** The artist, or the attribute that a limit can be set on. */
export function bylineOf(item) {
  const name = info.attributes.some((one) => one.name === "artist") ? "artist" : info.group;
  return name && name !== info.title ? text(item.attributes?.[name]) : null;
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
