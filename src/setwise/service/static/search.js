// Search for titles: a combobox with suggestions (the ARIA pattern), for mouse, touch and keyboard.

import { ask } from "./api.js";
import { byId, make } from "./dom.js";
import { bylineOf, many, titleOf } from "./words.js";

const PAUSE = 150; // milliseconds without input before a request is sent
const SHOWN = 8;
const MOST = 100; // items in one response of the service

export class Search {
  /** ``choose(item)`` is called with the chosen item; ``taken()`` is the set of ids that are not suggested. */
  constructor({ choose, taken, undo, onTrouble }) {
    Object.assign(this, { choose, taken, undo, onTrouble });
    this.box = byId("search");
    this.list = byId("suggestions");
    this.hint = byId("search-hint");
    this.found = [];
    this.active = -1;
    this.box.addEventListener("input", () => this.later());
    this.box.addEventListener("click", () => this.later(0));
    this.box.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("blur", () => this.close());
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // keep the focus in the box
  }

  later(pause = PAUSE) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), pause);
  }

  async look() {
    this.asked?.abort();
    this.asked = new AbortController();
    const wanted = new URLSearchParams({ q: this.box.value.trim(), limit: Math.min(MOST, SHOWN + this.taken().size) });
    try {
      const answer = await ask(`v1/items?${wanted}`, { signal: this.asked.signal });
      this.show(answer.items.filter((item) => !this.taken().has(item.id)).slice(0, SHOWN), answer.total);
    } catch (error) {
      if (error.name !== "AbortError") this.onTrouble(error);
    }
  }

  show(found, total) {
    if (document.activeElement !== this.box) return;
    this.found = found;
    this.list.replaceChildren(...found.map((item, place) => this.option(item, place)));
    this.list.hidden = found.length === 0;
    this.box.setAttribute("aria-expanded", String(found.length > 0));
    this.point(-1);
    this.hint.textContent = found.length === 0 ? "No match." : `${many(total)} found`;
    this.hint.classList.toggle("unseen", found.length > 0); // the list is visible
  }

  option(item, place) {
    const byline = bylineOf(item);
    const option = make(
      "li",
      { role: "option", id: `suggestion-${place}`, "aria-selected": "false" },
      make("span", { class: "name" }, titleOf(item)),
      byline && make("span", { class: "byline" }, byline),
    );
    option.addEventListener("click", () => this.take(place));
    return option;
  }

  pressed(event) {
    const open = !this.list.hidden;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      if (open) this.point(this.moved(steps[event.key]));
      else this.later(0);
    } else if (event.key === "Enter" && open) {
      event.preventDefault();
      this.take(Math.max(0, this.active));
    } else if (event.key === "Escape") {
      if (!open) this.box.value = "";
      this.close();
    } else if (event.key === "Backspace" && this.box.value === "") {
      this.undo();
    }
  }

  /** The next position; the list is cyclic and includes "none". */
  moved(step) {
    const places = this.found.length + 1;
    return ((this.active + 1 + step + places) % places) - 1;
  }

  point(place) {
    this.active = place;
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === place)));
    if (place < 0) {
      this.box.removeAttribute("aria-activedescendant");
    } else {
      this.box.setAttribute("aria-activedescendant", `suggestion-${place}`);
      this.list.children[place].scrollIntoView({ block: "nearest" });
    }
  }

  take(place) {
    const item = this.found[place];
    this.box.value = "";
    this.close();
    this.choose(item);
  }

  close() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.list.hidden = true;
    this.hint.textContent = "";
    this.box.setAttribute("aria-expanded", "false");
    this.point(-1);
  }
}
