// The items of the slate: the reward of each in the slate and, once they are compared, by itself.

import { certificate } from "./certificate.js";
import { aside, byId, make, refill } from "./dom.js";
import { pictureOf } from "./pictures.js";
import { bylineOf, decimalsOf, figure, signed, titleOf } from "./words.js";

export function showCertificate(slate, info) {
  byId("certificate").replaceChildren(...certificate(slate, info));
}

/** ``alone``: the reward of each item by itself, or null until it is known. */
export function showSlate({ slate, alone }, info, actions) {
  showCertificate(slate, info);
  const rewards = slate.items.map((item) => item.reward);
  const figures = [...rewards, ...(alone ?? [])];
  const sizes = { scale: scaleOf(figures), decimals: decimalsOf(figures) };
  refill(byId("items"), ...slate.items.map((item, i) => row(item, alone?.[i], rewards[i], sizes, actions)));
  byId("slate").hidden = false;
}

/** A linear map from rewards to percentages of a bar that includes zero. */
function scaleOf(figures) {
  const low = Math.min(0, ...figures);
  const high = Math.max(0, ...figures);
  return (value) => (high > low ? (100 * (value - low)) / (high - low) : 0);
}

function row(item, alone, together, { scale, decimals }, actions) {
  const title = titleOf(item);
  const byline = bylineOf(item);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "who" },
      pictureOf(item, title),
      make("div", {}, make("span", { class: "name" }, title), byline && make("span", { class: "byline" }, byline)),
    ),
    make("div", { class: "bars" }, stripe("together", together, scale), stripe("alone", alone ?? 0, scale)),
    make("p", { class: "figures" }, ...figuresOf(together, alone, decimals)),
    make("div", { class: "actions" }, ...buttonsOf(item, title, actions)),
  );
}

function buttonsOf(item, title, { add, canAdd, keep, remove, isKept }) {
  const button = (kind, words, label, act, pressed) => {
    const made = make("button", { type: "button", class: kind, "aria-label": label, "aria-pressed": pressed }, words);
    made.title = label;
    made.addEventListener("click", () => act(item));
    return made;
  };
  return [
    button("keep", "keep", `Keep ${title} in the slate`, keep, String(isKept(item))),
    button("remove", "not this", `Leave ${title} out of the slate`, remove),
    ...(canAdd() ? [button("add", "+", `Add ${title} to the history`, add)] : []),
  ];
}

function figuresOf(together, alone, decimals) {
  const first = make("span", { class: "together" }, figure(together, decimals), aside(" in the slate, "));
  if (alone === undefined) return [first, make("span", { class: "alone" }, "…"), make("span", { class: "delta" })];
  const difference = signed(together - alone, decimals);
  return [
    first,
    make("span", { class: "alone" }, figure(alone, decimals), aside(" by itself, ")),
    make("span", { class: together < alone ? "delta less" : "delta" }, difference, aside(" difference")),
  ];
}

function stripe(kind, value, scale) {
  const [from, to] = [scale(0), scale(value)].sort((a, b) => a - b);
  const fill = make("span", { class: `fill ${kind}` });
  fill.style.marginInlineStart = `${from}%`;
  fill.style.width = `${to - from}%`;
  return make("div", { class: "stripe" }, fill);
}
