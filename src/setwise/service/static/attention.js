// Around the attention graph: the choice of heads, a summary in words, and the same data as a table.

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
  byId("head").parentElement.hidden = ![explained.lent, ...explained.attention].some(hasTies);
  redraw();
}

/** "All heads" shows contributions; a single head shows attention weights, which are not negative. */
function offerHeads(heads) {
  const select = byId("head");
  if (select.options.length === heads + 1) return;
  const each = Array.from({ length: heads }, (_, h) => make("option", { value: h }, `Attention of head ${h + 1}`));
  select.replaceChildren(
    make("option", { value: "lent" }, heads > 1 ? "Contributions, all heads" : "Contributions"),
    ...each,
  );
}

function redraw() {
  const choice = byId("head").value;
  const lent = choice === "lent";
  const weights = lent ? shown.lent : shown.attention[Number(choice)];
  const sink = lent ? null : shown.sink?.[Number(choice)];
  for (const part of ["graph", "graph-legend", "as-table"]) byId(part).hidden = !hasTies(weights);
  shown.width = byId("graph").clientWidth;
  const label = lent ? "Contributions between the items of this slate" : `Attention weights of head ${Number(choice) + 1}`;
  const pick = (i) => {
    byId("summary").textContent =
      i === null ? overall(shown.items, weights, lent) : itemSummary(shown.items, weights, i, lent);
  };
  pick(null);
  refill(byId("graph"), graph({ items: shown.items, weights, width: Math.max(shown.width, 240), label, pick }));
  byId("graph-legend").replaceChildren(...legend(weights, lent));
  byId("matrix").replaceChildren(table(shown.items, weights, sink, lent));
}

const hasTies = (weights) => weights.some((row, i) => row.some((weight, j) => i !== j && weight !== 0));

const strongestOf = (pairs) =>
  pairs.reduce((best, pair) => (Math.abs(pair.weight) > Math.abs(best?.weight ?? 0) ? pair : best), null);
const pairsTo = (weights, i) =>
  weights[i].map((weight, j) => ({ other: j, to: i, weight })).filter((pair) => pair.other !== i);
const pairsFrom = (weights, j) =>
  weights.map((row, i) => ({ other: i, weight: row[j] })).filter((pair) => pair.other !== j);

function overall(items, weights, lent) {
  const strongest = strongestOf(weights.flatMap((_, i) => pairsTo(weights, i)));
  if (!strongest) return "No item contributes to another item.";
  const [from, to] = [titleOf(items[strongest.other]), titleOf(items[strongest.to])];
  if (!lent) return `Strongest weight: ${to} gives ${figure(strongest.weight, 2)} of its attention to ${from}.`;
  return `Strongest contribution: ${from} contributes ${signed(strongest.weight)} to ${to}.`;
}

function itemSummary(items, weights, i, lent) {
  const [from, to] = [strongestOf(pairsTo(weights, i)), strongestOf(pairsFrom(weights, i))];
  const write = lent ? (value) => signed(value) : (value) => figure(value, 2);
  const most = (pair, word) => (pair ? `, most ${word} ${titleOf(items[pair.other])} (${write(pair.weight)})` : "");
  const [gets, gives] = lent ? ["receives", "contributes"] : ["gives other items", "receives"];
  const [source, target] = lent ? ["from", "to"] : ["to", "from"];
  return (
    `${titleOf(items[i])} ${gets} ${write(received(weights, i))}${lent ? "" : " of its attention"}${most(from, source)}; ` +
    `it ${gives} ${write(given(weights, i))}${most(to, target)}.`
  );
}

function legend(weights, lent) {
  const kinds =
    lent && weights.flat().some((weight) => weight < 0)
      ? [
          ["positive", "adds to the score"],
          ["negative", "subtracts from the score"],
        ]
      : [["positive", lent ? "adds to the score" : "receives attention from"]];
  const keys = kinds.map(([kind, words]) => make("span", {}, make("span", { class: `key ${kind}` }), words));
  const unit = lent
    ? "A number is what one item adds to the argument of another item's reward."
    : "A number is a share of an item's attention.";
  return [...keys, make("span", { class: "note" }, `${unit} The weakest arrows are not drawn.`)];
}

function table(items, weights, sink, lent) {
  const caption = lent
    ? "Contribution of the column's item to the row's item; on the diagonal, of the item to itself."
    : "Share of attention that the row's item gives to the column's item.";
  const columns = items.map((item, j) => make("th", { scope: "col", title: titleOf(item) }, String(j + 1)));
  const head = make("tr", {}, make("th", { scope: "col" }, lent ? "receives ↓ from →" : "attends ↓ to →"), ...columns);
  if (sink) head.append(make("th", { scope: "col" }, "no item (sink)"));
  const write = (value) => (lent ? signed(value) : figure(value, 2));
  const rows = items.map((item, i) => {
    const cells = [...weights[i], ...(sink ? [sink[i]] : [])].map((value) => make("td", {}, write(value)));
    return make("tr", {}, make("th", { scope: "row" }, `${i + 1}. ${titleOf(item)}`), ...cells);
  });
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows));
}
