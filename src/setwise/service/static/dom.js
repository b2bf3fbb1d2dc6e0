// Elements created without markup, so that a title is always text.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Text for screen readers only. */
export const aside = (words) => make("span", { class: "unseen" }, words);

/** Replace the children; the focus moves to the new control at the same position. */
export function refill(container, ...children) {
  const reachable = () => [...container.querySelectorAll("button, [tabindex='0']")];
  const place = reachable().indexOf(document.activeElement);
  container.replaceChildren(...children);
  const now = reachable();
  if (place >= 0) now[Math.min(place, now.length - 1)]?.focus({ preventScroll: true });
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
