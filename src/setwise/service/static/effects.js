// What the items of a slate do to each other, as the training found it: in words, and as the drawing that it made.

import { byId, make } from "./dom.js";

export function showEffects({ effects, drawing }) {
  byId("effects").hidden = effects.length === 0;
  byId("effects-words").replaceChildren(...effects.map((words) => make("li", {}, words)));
  const picture = new DOMParser().parseFromString(drawing || "<svg/>", "image/svg+xml").documentElement;
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", "Curves and tables of these effects");
  byId("effects-drawing").replaceChildren(document.importNode(picture, true));
}
