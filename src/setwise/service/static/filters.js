// Filters: conditions on attributes of the catalogue, which become the request's "where". Texts are chosen, numbers bounded.

import { showChips } from "./chips.js";
import { byId, make } from "./dom.js";
import { cell } from "./words.js";

const BOTH = [true, false]; // the values of an attribute of yes and no
const ENDS = ["from", "to"];

let attributes = new Map(); // by name
let fields = []; // of the attributes that have controls: { name, element, read(), write(condition) }
let current = {}; // the conditions on the page

/** Create the controls; ``changed(where)`` is called with all conditions when somebody has changed one. */
export function offerFilters(info, changed) {
  attributes = new Map(info.attributes.map((one) => [one.name, one]));
  fields = info.attributes.filter((one) => one.name !== info.title && isFilterable(one)).map(fieldOf);
  byId("filter-fields").replaceChildren(...fields.map((field) => field.element));
  byId("filters").hidden = fields.length === 0;
  byId("filter-fields").onchange = (event) => {
    const field = fields.find(({ element }) => element.contains(event.target));
    const condition = field.read();
    const others = without(current, field.name);
    changed(condition === null ? others : { ...others, [field.name]: condition });
  };
}

/** Show these conditions: in the controls, and as chips, which are seen while the controls are not. */
export function showFilters(where, changed) {
  current = where;
  for (const { name, write } of fields) write(Object.hasOwn(where, name) ? where[name] : null);
  const chips = Object.entries(where).map(([name, condition]) => ({ id: `${name}: ${wordsOf(condition)}`, name }));
  showChips("conditions", chips, ({ name }) => changed(without(where, name)), "Remove the filter");
  byId("filter-count").textContent = chips.length ? ` (${chips.length})` : "";
}

const without = (where, name) => Object.fromEntries(Object.entries(where).filter(([other]) => other !== name));

function isFilterable({ kind, values, low, high }) {
  if (kind === "number") return low !== null && low < high;
  return kind === "boolean" || (kind === "text" && values !== null && values.length > 1);
}

const fieldOf = (attribute) => (attribute.kind === "number" ? rangeField(attribute) : choiceField(attribute));

function choiceField({ name, kind, values }) {
  const choices = kind === "boolean" ? BOTH : values;
  const boxes = choices.map(() => make("input", { type: "checkbox" }));
  const labels = choices.map((value, at) => make("label", { class: "choice" }, boxes[at], make("span", {}, said(value))));
  return {
    name,
    element: fieldset(name, make("div", { class: "choices" }, ...labels)),
    read() {
      const chosen = choices.filter((_, at) => boxes[at].checked);
      return chosen.length ? chosen : null;
    },
    write: (condition) => boxes.forEach((box, at) => (box.checked = condition?.includes(choices[at]) ?? false)),
  };
}

function rangeField({ name, low, high }) {
  const inputs = ENDS.map((end, at) =>
    make("input", { type: "number", step: "any", placeholder: rounded([low, high][at]), "aria-label": `${name} ${end}` }),
  );
  const labels = ENDS.map((end, at) => make("label", {}, make("span", {}, end), inputs[at]));
  return {
    name,
    element: fieldset(name, make("div", { class: "ends-of-range" }, ...labels)),
    read() {
      const given = ENDS.map((end, at) => [end, inputs[at].valueAsNumber]).filter(([, number]) => !Number.isNaN(number));
      return given.length ? Object.fromEntries(given) : null;
    },
    write: (condition) => ENDS.forEach((end, at) => (inputs[at].value = condition?.[end] ?? "")),
  };
}

const rounded = (number) => Number(number.toPrecision(6));

const fieldset = (name, content) => make("fieldset", {}, make("legend", {}, name), content);

const said = (value) => (value === true ? "yes" : value === false ? "no" : (cell(value) ?? "(blank)"));

function wordsOf(condition) {
  if (Array.isArray(condition)) return condition.map(said).join(" or ");
  return ENDS.filter((end) => end in condition)
    .map((end) => `${end} ${condition[end]}`)
    .join(" ");
}

/** The conditions of a link that this catalogue can meet; ``unknown`` names the others. */
export function readWhere(written) {
  const unknown = [];
  const entries = Object.entries(objectIn(written)).map(([name, given]) => {
    const [condition, dropped] = readCondition(attributes.get(name), given);
    unknown.push(...dropped.map((value) => `${name} ${value}`.trim()));
    return [name, condition];
  });
  return { where: Object.fromEntries(entries.filter(([, condition]) => condition !== null)), unknown };
}

/** The condition, or null, and what of it the attribute cannot have. */
function readCondition(attribute, given) {
  if (attribute === undefined) return [null, [""]];
  if (attribute.kind === "number") {
    const ends = ENDS.map((end) => [end, given?.[end]]).filter(([, number]) => Number.isFinite(number));
    return ends.length ? [Object.fromEntries(ends), []] : [null, [""]];
  }
  const values = Array.isArray(given) ? given : [given];
  const wanted = attribute.kind === "boolean" ? "boolean" : "string";
  const possible = values.filter((value) => typeof value === wanted && (attribute.values?.includes(value) ?? true));
  const dropped = values.filter((value) => !possible.includes(value)).map(String);
  return [possible.length ? [...new Set(possible)] : null, dropped];
}

function objectIn(written) {
  try {
    const read = JSON.parse(written ?? "{}");
    return read !== null && typeof read === "object" && !Array.isArray(read) ? read : {};
  } catch {
    return {};
  }
}
