// The attention graph of the slate as SVG: an arrow runs from the item that contributes to the item that receives.

import { draw } from "./dom.js";
import { signed, titleOf } from "./words.js";

const FAINT = 0.05; // of the strongest: arrows below are left out
const PER_NODE = 4; // arrows drawn for each item at most, on average
const MOST = 30; // arrows drawn: more of them cannot be distinguished
const ROOM_FOR_TITLES = 520; // pixels; below it nodes show numbers only
const LETTER = 7.2; // pixels, roughly, of the labels' font

/** The arrows to draw, weakest first so that strong arrows lie on top. */
export function arrowsOf(weights) {
  const arrows = [];
  weights.forEach((row, to) =>
    row.forEach((weight, from) => from !== to && weight !== 0 && arrows.push({ from, to, weight })),
  );
  arrows.sort((a, b) => Math.abs(a.weight) - Math.abs(b.weight));
  const strongest = Math.abs(arrows.at(-1)?.weight ?? 0);
  return arrows.slice(-Math.min(MOST, PER_NODE * weights.length)).filter((arrow) => Math.abs(arrow.weight) >= FAINT * strongest);
}

/** The SVG of ``weights[i][j]``, the contribution of j to i; ``pick(i or null)`` reports the highlighted item. */
export function graph({ items, weights, width, label, pick }) {
  const titled = width >= ROOM_FOR_TITLES;
  const height = Math.round(titled ? Math.min(width * 0.72, 520) : width * 0.94);
  const radius = titled ? Math.min(height / 2 - 44, width / 2 - 150) : width / 2 - 26;
  const places = items.map((_, i) => placeOf(i, items.length, width / 2, height / 2, radius));
  const arrows = arrowsOf(weights);
  const strongest = Math.abs(arrows.at(-1)?.weight ?? 1);
  const drawn = arrows.map((arrow) => ({ ...arrow, element: arrowOf(arrow, places, strongest, width, height) }));
  const nodes = items.map((item, i) => nodeOf(item, i, places[i], titled && titleRoom(places[i], width), weights));
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-labelledby": "graph-title graph-description" },
    draw("title", { id: "graph-title" }, label),
    draw(
      "desc",
      { id: "graph-description" },
      "Items as numbered circles; arrow keys move between them. The table below contains every number.",
    ),
    draw("defs", {}, head("positive"), head("negative")),
    draw("g", { class: "arrows", "aria-hidden": "true" }, ...drawn.map((arrow) => arrow.element)),
    draw("g", { class: "nodes" }, ...nodes),
  );
  svg.style.aspectRatio = `${width} / ${height}`;
  addInteraction(svg, nodes, drawn, pick);
  return svg;
}

function placeOf(i, n, cx, cy, radius) {
  const angle = (2 * Math.PI * i) / n - Math.PI / 2;
  const r = n === 1 ? 0 : radius;
  return { x: cx + r * Math.cos(angle), y: cy + r * Math.sin(angle), angle };
}

const NODE = 15; // radius of a node

function head(kind) {
  const shape = draw("path", { d: "M0 0 L9 4.5 L0 9 z", class: kind });
  const box = { id: `head-${kind}`, viewBox: "0 0 9 9", refX: 7, refY: 4.5, markerWidth: 9, markerHeight: 9 };
  return draw("marker", { ...box, markerUnits: "userSpaceOnUse", orient: "auto" }, shape);
}

/** A curve bent towards the centre and to one side, so that opposite arrows do not overlap. */
function arrowOf({ from, to, weight }, places, strongest, width, height) {
  const [a, b] = [places[from], places[to]];
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const side = { x: -(b.y - a.y) / length, y: (b.x - a.x) / length };
  const mid = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  const bend = {
    x: mid.x + 0.25 * (width / 2 - mid.x) + 0.1 * length * side.x,
    y: mid.y + 0.25 * (height / 2 - mid.y) + 0.1 * length * side.y,
  };
  const start = towards(a, bend, NODE + 2);
  const end = towards(b, bend, NODE + 4);
  const share = Math.abs(weight) / strongest;
  const kind = weight > 0 ? "positive" : "negative";
  return draw("path", {
    class: kind,
    d: `M${point(start)} Q${point(bend)} ${point(end)}`,
    "stroke-width": (0.8 + 4.2 * share).toFixed(2),
    opacity: (0.25 + 0.7 * share).toFixed(2),
    "marker-end": `url(#head-${kind})`,
  });
}

function towards(from, to, by) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + (by * (to.x - from.x)) / length, y: from.y + (by * (to.y - from.y)) / length };
}

const point = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function titleRoom({ x, angle }, width) {
  const upright = Math.abs(Math.cos(angle)) < 0.25;
  return Math.floor((upright ? 220 : Math.min(x, width - x) - NODE - 8) / LETTER);
}

function nodeOf(item, i, { x, y, angle }, room, weights) {
  const node = draw(
    "g",
    {
      class: "node",
      role: "button",
      tabindex: i === 0 ? 0 : -1,
      "aria-pressed": "false",
      "aria-label": describeNode(item, i, weights),
    },
    draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: NODE }),
    draw("text", { x: x.toFixed(1), y: (y + 4.5).toFixed(1), "text-anchor": "middle", class: "number" }, String(i + 1)),
  );
  if (room) node.append(titleAt(titleOf(item), x, y, angle, room));
  return node;
}

function titleAt(title, x, y, angle, room) {
  const across = Math.cos(angle);
  const upright = Math.abs(across) < 0.25;
  const letters = [...title];
  const shown = letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : title;
  const dy = upright ? (Math.sin(angle) < 0 ? -NODE - 8 : NODE + 18) : 4.5;
  const dx = upright ? 0 : Math.sign(across) * (NODE + 8);
  const anchor = upright ? "middle" : across > 0 ? "start" : "end";
  return draw("text", { x: (x + dx).toFixed(1), y: (y + dy).toFixed(1), "text-anchor": anchor, class: "title" }, shown);
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
export const received = (weights, i) => sum(weights[i].filter((_, j) => j !== i));
export const given = (weights, i) => sum(weights.map((row, to) => (to === i ? 0 : row[i])));

function describeNode(item, i, weights) {
  return `${i + 1}. ${titleOf(item)}: receives ${signed(received(weights, i))}, contributes ${signed(given(weights, i))}`;
}

/** Highlight the arrows of a node on pointer, focus or press. */
function addInteraction(svg, nodes, arrows, pick) {
  let pressed = null;
  const look = (i) => {
    svg.classList.toggle("looking", i !== null);
    nodes.forEach((node, at) => node.classList.toggle("looked-at", at === i));
    arrows.forEach(({ from, to, element }) => element.classList.toggle("touching", from === i || to === i));
    pick(i);
  };
  const press = (i) => {
    pressed = pressed === i ? null : i;
    nodes.forEach((node, at) => node.setAttribute("aria-pressed", String(at === pressed)));
    look(pressed);
  };
  const go = (i) => {
    nodes.forEach((node, at) => node.setAttribute("tabindex", at === i ? 0 : -1));
    nodes[i].focus();
  };
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  nodes.forEach((node, i) => {
    node.addEventListener("pointerenter", () => look(i));
    node.addEventListener("pointerleave", () => look(pressed));
    node.addEventListener("focus", () => look(i));
    node.addEventListener("blur", () => look(pressed));
    node.addEventListener("click", () => press(i));
    node.addEventListener("keydown", (event) => {
      if (!(event.key in steps) && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      if (event.key in steps) go((i + steps[event.key] + nodes.length) % nodes.length);
      else press(i);
    });
  });
}
