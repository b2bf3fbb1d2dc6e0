// The same query with other methods, side by side: the items, the value and the time of each.

import { aside, byId, make } from "./dom.js";
import { valueDecimals } from "./certificate.js";
import { duration, figure, percent, signed, titleOf } from "./words.js";

const METHODS = {
  "top-k": ["top-k", "the items worth most by themselves"],
  knn: ["vector search", "the highest scores, as a vector index finds them"],
  mmr: ["MMR", "worth by itself, less likeness to items before"],
  dpp: ["DPP", "worth by itself, times the spread of the set"],
  greedy: ["greedy", "the best next item at each step"],
  beam: ["beam", "several partial slates at a time"],
  swap: ["setwise", "exchanges items as long as the value rises"],
};

export function showRivals(explained) {
  const { slate, rivals } = explained;
  const inSlate = new Set(slate.items.map((item) => item.id));
  const best = Math.max(...rivals.map((rival) => rival.value));
  const order = Object.keys(METHODS);
  const sorted = [...rivals].sort((a, b) => order.indexOf(a.ranker) - order.indexOf(b.ranker));
  byId("methods").replaceChildren(...sorted.map((rival) => card(rival, slate, best, inSlate)));
  byId("gain").textContent = gains(explained);
}

function card(rival, slate, best, inSlate) {
  const decimals = valueDecimals(slate);
  const [name, way] = METHODS[rival.ranker] ?? [rival.ranker, ""];
  const own = rival.ranker === "swap";
  const fill = make("span", { class: own ? "fill together" : "fill alone" });
  fill.style.width = `${best > 0 ? Math.max(0, (100 * rival.value) / best) : 0}%`;
  return make(
    "article",
    { class: own ? "method own" : "method", "data-ranker": rival.ranker },
    make("h3", {}, name),
    make("p", { class: "way" }, way),
    make(
      "p",
      { class: "worth" },
      make("strong", {}, figure(rival.value, decimals)),
      " ",
      make("span", { class: "delta" }, against(rival.value - slate.value, decimals)),
    ),
    make("div", { class: "stripe", "aria-hidden": "true" }, fill),
    make("p", { class: "time" }, duration(rival.milliseconds)),
    make("ol", {}, ...rival.items.map((item) => line(item, inSlate.has(item.id)))),
  );
}

const same = (difference, decimals) => Math.abs(difference) < 0.5 * 10 ** -decimals;
const against = (difference, decimals) => (same(difference, decimals) ? "same" : signed(difference, decimals));

function line(item, shared) {
  const note = shared ? null : aside(" (not in the slate)");
  return make("li", { class: shared ? "shared" : "other" }, make("span", {}, titleOf(item), note));
}

function gains({ slate, gain_over_top_k: overTopK, gain_over_greedy: overGreedy }) {
  const decimals = valueDecimals(slate);
  const compared = (gain, name) => {
    if (same(gain, decimals)) return `equal to ${name}`;
    const rival = slate.value - gain;
    const share = rival > 0 ? ` (${percent(gain / rival)})` : "";
    return `${figure(Math.abs(gain), decimals)}${share} ${gain > 0 ? "above" : "below"} ${name}`;
  };
  return `The value of the slate is ${compared(overTopK, "top-k")}, and ${compared(overGreedy, "greedy")}.`;
}
