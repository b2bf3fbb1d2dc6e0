// What goes with the attention graph: the choice of heads, a reading in words, and the same as a table.

import { byId, make, refill } from "./dom.js";
import { given, graph, received } from "./graph.js";
import { figure, signed, titleOf } from "./words.js";

let shown = null; // the answer on the page

export function prepareAttention() {
  byId("head").addEventListener("change", redraw);
  new ResizeObserver(() => shown && byId("graph").clientWidth !== shown.width && redraw()).observe(byId("graph"));
}

export function showAttention(explained) {
  shown = { ...explained, items: explained.slate.items };
  offerHeads(explained.attention.length);
  byId("attention").hidden = false;
  redraw();
}

/** "All heads" is value lent; a head by itself is attention, which has no sign. */
function offerHeads(heads) {
  const select = byId("head");
  if (select.options.length === heads + 1) return;
  const each = Array.from({ length: heads }, (_, h) => make("option", { value: h }, `Attention of head ${h + 1}`));
  select.replaceChildren(
    make("option", { value: "lent" }, heads > 1 ? "Value lent, all heads" : "Value lent"),
    ...each,
  );
}

function redraw() {
  const choice = byId("head").value;
  const lent = choice === "lent";
  const weights = lent ? shown.lent : shown.attention[Number(choice)];
  const sink = lent ? null : shown.sink?.[Number(choice)];
  shown.width = byId("graph").clientWidth;
  const label = lent ? "Who lends whom value in this slate" : `Who attends to whom in head ${Number(choice) + 1}`;
  const pick = (i) => {
    byId("reading").textContent =
      i === null ? overall(shown.items, weights, lent) : reading(shown.items, weights, i, lent);
  };
  pick(null);
  refill(byId("graph"), graph({ items: shown.items, weights, width: Math.max(shown.width, 240), label, pick }));
  byId("graph-legend").replaceChildren(...legend(weights, lent));
  byId("matrix").replaceChildren(table(shown.items, weights, sink, lent));
}

const strongestOf = (pairs) =>
  pairs.reduce((best, pair) => (Math.abs(pair.weight) > Math.abs(best?.weight ?? 0) ? pair : best), null);
const pairsTo = (weights, i) =>
  weights[i].map((weight, j) => ({ other: j, to: i, weight })).filter((pair) => pair.other !== i);
const pairsFrom = (weights, j) =>
  weights.map((row, i) => ({ other: i, weight: row[j] })).filter((pair) => pair.other !== j);

function overall(items, weights, lent) {
  const strongest = strongestOf(weights.flatMap((_, i) => pairsTo(weights, i)));
  if (!strongest) return "Nobody lends anybody anything here.";
  const [from, to] = [titleOf(items[strongest.other]), titleOf(items[strongest.to])];
  if (!lent) return `The strongest tie: ${to} gives ${figure(strongest.weight, 2)} of its attention to ${from}.`;
  const [verb, whom] = strongest.weight > 0 ? ["lends", "to"] : ["takes", "from"];
  return `The strongest tie: ${from} ${verb} ${figure(Math.abs(strongest.weight), 2)} ${whom} ${to}.`;
}

function reading(items, weights, i, lent) {
  const [from, to] = [strongestOf(pairsTo(weights, i)), strongestOf(pairsFrom(weights, i))];
  const write = lent ? (value) => signed(value) : (value) => figure(value, 2);
  const most = (pair, word) => (pair ? `, most ${word} ${titleOf(items[pair.other])} (${write(pair.weight)})` : "");
  const [gets, gives] = lent ? ["receives", "lends"] : ["pays others", "is paid"];
  const [source, target] = lent ? ["from", "to"] : ["to", "by"];
  return (
    `${titleOf(items[i])} ${gets} ${write(received(weights, i))}${lent ? "" : " of its attention"}${most(from, source)}; ` +
    `it ${gives} ${write(given(weights, i))}${most(to, target)}.`
  );
}

function legend(weights, lent) {
  const kinds =
    lent && weights.flat().some((weight) => weight < 0)
      ? [
          ["lends", "lends value"],
          ["takes", "takes value"],
        ]
      : [["lends", lent ? "lends value" : "is attended to by"]];
  const keys = kinds.flatMap(([kind, words]) => [make("span", { class: `key ${kind}` }), words]);
  const unit = lent
    ? "Figures are what one item adds to another's score, before the reward function."
    : "Figures are shares of an item's attention.";
  return [...keys, make("span", { class: "note" }, `${unit} The faintest arrows are left out.`)];
}

function table(items, weights, sink, lent) {
  const caption = lent
    ? "What the item of a column lends the item of a row; on the diagonal, itself."
    : "How much of its attention the item of a row gives the item of a column.";
  const columns = items.map((item, j) => make("th", { scope: "col", title: titleOf(item) }, String(j + 1)));
  const head = make("tr", {}, make("th", { scope: "col" }, lent ? "borrows ↓ lends →" : "attends ↓ to →"), ...columns);
  if (sink) head.append(make("th", { scope: "col" }, "nobody"));
  const write = (value) => (lent ? signed(value) : figure(value, 2));
  const rows = items.map((item, i) => {
    const cells = [...weights[i], ...(sink ? [sink[i]] : [])].map((value) => make("td", {}, write(value)));
    return make("tr", {}, make("th", { scope: "row" }, `${i + 1}. ${titleOf(item)}`), ...cells);
  });
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows));
}
