// The slate: its upper bound as text and as a bar, and the reward of each item in the slate and by itself.

import { aside, byId, make, refill } from "./dom.js";
import { bylineOf, decimalsOf, duration, figure, many, noun, percent, signed, titleOf } from "./words.js";

const PHASES = { queue: "queued", retrieve: "retrieved", rank: "ranked", certify: "bounded" };

export function showSlate(explained, catalogSize, add) {
  byId("certificate").replaceChildren(...certificate(explained.slate, catalogSize));
  const figures = [...explained.alone, ...explained.rewards];
  const sizes = { scale: scaleOf(figures), decimals: decimalsOf(figures) };
  refill(
    byId("items"),
    ...explained.slate.items.map((item, i) => row(item, explained.alone[i], explained.rewards[i], sizes, add)),
  );
  byId("slate").hidden = false;
}

/** Milliseconds for the slate itself, without the other methods. */
export const spent = ({ timings }) => Object.keys(PHASES).reduce((sum, phase) => sum + (timings[phase] ?? 0), 0);

function certificate(slate, catalogSize) {
  const decimals = valueDecimals(slate);
  const worth = make(
    "p",
    { class: "worth" },
    make("strong", {}, figure(slate.value, decimals)),
    " value of this slate",
  );
  const timings = Object.entries(PHASES)
    .filter(([phase]) => slate.timings[phase] !== undefined)
    .map(([phase, done]) => `${done} ${duration(slate.timings[phase])}`);
  return [
    worth,
    slate.upper_bound > 0 && slate.value >= 0 ? bar(slate.value, slate.upper_bound, decimals) : "",
    make("p", { class: slate.proven ? "verdict proven" : "verdict" }, verdict(slate, catalogSize)),
    make("p", { class: "timings" }, timings.join(" · ")),
  ];
}

export const valueDecimals = (slate) => decimalsOf([slate.value], 3);

export function verdict(slate, catalogSize) {
  const among = `of these ${many(catalogSize)}`;
  if (slate.proven) return `Proven optimal: no feasible slate ${among} has a higher value.`;
  if (slate.upper_bound === null) return "No upper bound was computed.";
  const bound = `Not proven optimal. Upper bound on every feasible slate ${among}: ${figure(slate.upper_bound, valueDecimals(slate))}`;
  return slate.upper_bound > 0 && slate.value >= 0
    ? `${bound}. This slate has at least ${percent(1 - slate.gap)} of the optimum.`
    : `${bound}.`;
}

function bar(value, bound, decimals) {
  const [reached, most] = [figure(value, decimals), figure(bound, decimals)];
  const meter = make("div", {
    class: "meter",
    role: "meter",
    "aria-label": "Value against its upper bound",
    "aria-valuemin": 0,
    "aria-valuemax": bound,
    "aria-valuenow": value,
    "aria-valuetext": `${reached} of at most ${most}`,
  });
  const fill = make("span", { class: "fill" });
  fill.style.width = `${(100 * value) / bound}%`;
  meter.append(fill);
  const ends = make("p", { class: "ends", "aria-hidden": "true" });
  ends.append(make("span", {}, "0"), make("span", {}, `upper bound ${most}`));
  return make("div", {}, meter, ends);
}

/** A linear map from rewards to percentages of a bar that includes zero. */
function scaleOf(figures) {
  const low = Math.min(0, ...figures);
  const high = Math.max(0, ...figures);
  return (value) => (high > low ? (100 * (value - low)) / (high - low) : 0);
}

function row(item, alone, together, { scale, decimals }, add) {
  const title = titleOf(item);
  const byline = bylineOf(item);
  const button = make("button", { type: "button", class: "add", "aria-label": `Add ${title} to the history` }, "+");
  button.title = `Add this ${noun()} to the history`;
  button.addEventListener("click", () => add(item));
  return make(
    "li",
    {},
    make(
      "div",
      { class: "who" },
      make("span", { class: "name" }, title),
      byline && make("span", { class: "byline" }, byline),
    ),
    make("div", { class: "bars" }, stripe("together", together, scale), stripe("alone", alone, scale)),
    make(
      "p",
      { class: "figures" },
      make("span", { class: "together" }, figure(together, decimals), aside(" in the slate, ")),
      make("span", { class: "alone" }, figure(alone, decimals), aside(" by itself, ")),
      make(
        "span",
        { class: together < alone ? "delta less" : "delta" },
        signed(together - alone, decimals),
        aside(" difference"),
      ),
    ),
    button,
  );
}

function stripe(kind, value, scale) {
  const [from, to] = [scale(0), scale(value)].sort((a, b) => a - b);
  const fill = make("span", { class: `fill ${kind}` });
  fill.style.marginInlineStart = `${from}%`;
  fill.style.width = `${to - from}%`;
  return make("div", { class: "stripe" }, fill);
}
