// The certificate of a slate: its value against the upper bound, as text and as a bar.

import { make } from "./dom.js";
import { valueWords } from "./help.js";
import { decimalsOf, duration, figure, many, percent } from "./words.js";

const PHASES = { queue: "queued", retrieve: "retrieved", rank: "ranked", certify: "bounded" };

/** Milliseconds for the slate itself, without the other methods. */
export const spent = ({ timings }) => Object.keys(PHASES).reduce((sum, phase) => sum + (timings[phase] ?? 0), 0);

export const valueDecimals = (slate) => decimalsOf([slate.value], 3);

/** The slate with the lower of the upper bounds of two answers to the same query. */
export function tightened(slate, other) {
  if (other.upper_bound === null || slate.proven) return slate;
  if (slate.upper_bound !== null && slate.upper_bound <= other.upper_bound) return slate;
  const bound = Math.max(other.upper_bound, slate.value); // rounding may leave the bound of a proven slate below it
  const gap = bound > 0 ? (bound - slate.value) / bound : null;
  return { ...slate, upper_bound: bound, gap, proven: other.proven && slate.value >= other.value };
}

export function certificate(slate, info) {
  const decimals = valueDecimals(slate);
  const worth = make(
    "p",
    { class: "worth" },
    make("strong", {}, figure(slate.value, decimals)),
    ` ${valueWords(info, slate.items.length)}`,
  );
  const timings = Object.entries(PHASES)
    .filter(([phase]) => slate.timings[phase] !== undefined)
    .map(([phase, done]) => `${done} ${duration(slate.timings[phase])}`);
  return [
    worth,
    slate.upper_bound > 0 && slate.value >= 0 ? bar(slate.value, slate.upper_bound, decimals) : "",
    make("p", { class: slate.proven ? "verdict proven" : "verdict" }, verdict(slate, info.items)),
    make("p", { class: "timings" }, timings.join(" · ")),
  ];
}

const LEFT_OUT = { certificate: "no upper bound was computed", search: "only a twentieth of the search was done", time: "there was less time than usual" };

/** What a busy service has left out of this slate, as a sentence; null if nothing. */
export function leftOutWords({ left_out: parts }) {
  if (parts.length === 0) return null;
  const lacks = parts.map((part) => LEFT_OUT[part] ?? `there is no ${part}`).join(", and ");
  return `The service is busy, or has just been installed: ${lacks}. Ask again in a moment for a complete answer.`;
}

export function verdict(slate, catalogSize) {
  if (slate.partial) return "A part of the items could not be reached. This slate is of the others, without an upper bound.";
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
