// What is asked for, as the page's address keeps it: #history=["a",7]&k=8&at_most=2, to be passed on as a link.

export const NO_LIMIT = 6; // the slider's last place

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
  const said = new URLSearchParams();
  if (history.length) said.set("history", JSON.stringify(history));
  said.set("k", k);
  if (atMost !== NO_LIMIT) said.set("at_most", atMost);
  window.history.replaceState(null, "", `#${said}`);
}

/** Ids, as JSON because 7 and "7" are different ids; nothing from what is not a list of them. */
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
