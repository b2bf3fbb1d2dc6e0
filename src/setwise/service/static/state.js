// The state in the address, so that it can be shared as a link: #history=["a",7]&k=8&at_most=2.

export const NO_LIMIT = 6; // the last position of the slider

const DEFAULT_K = 10;

export function fromAddress(longest) {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    history: idsIn(given.get("history")),
    k: within(given.get("k"), 1, longest, Math.min(DEFAULT_K, longest)),
    atMost: within(given.get("at_most"), 1, NO_LIMIT, NO_LIMIT),
  };
}

export function toAddress({ history, k, atMost }) {
  const fields = new URLSearchParams();
  if (history.length) fields.set("history", JSON.stringify(history));
  fields.set("k", k);
  if (atMost !== NO_LIMIT) fields.set("at_most", atMost);
  window.history.replaceState(null, "", `#${fields}`);
}

/** Ids as JSON, because 7 and "7" are different ids; an empty list if the text is not a list of ids. */
function idsIn(written) {
  try {
    const read = JSON.parse(written ?? "[]");
    const ids = Array.isArray(read) ? read.filter((id) => typeof id === "string" || Number.isSafeInteger(id)) : [];
    return [...new Set(ids)];
  } catch {
    return [];
  }
}

function within(written, low, high, otherwise) {
  const number = Number.parseInt(written, 10);
  return Number.isNaN(number) ? otherwise : Math.min(high, Math.max(low, number));
}
