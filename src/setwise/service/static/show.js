// What the page shows while it asks: the slate, then the comparison, or what went wrong.

import { backgroundBudget, USUAL } from "./answer.js";
import { showAttention } from "./attention.js";
import { leftOutWords, spent, valueDecimals, verdict } from "./certificate.js";
import { aside, byId } from "./dom.js";
import { offerLonger } from "./longer.js";
import { showRivals } from "./rivals.js";
import { showCertificate, showSlate } from "./slate.js";
import { cell, duration, figure, many } from "./words.js";

/** How far the answer is: ``busy`` until the slate is shown; ``compared`` is pending, shown or none. */
function progress(busy, compared) {
  byId("answer").setAttribute("aria-busy", busy);
  byId("answer").dataset.compared = compared;
}

/** Whether the upper bound is final, or goes on in the background. */
const boundIs = (state) => (byId("answer").dataset.bound = state);

const every = (selector, change) => document.querySelectorAll(selector).forEach(change);

/** What is shown is not the answer yet. */
export function showPending() {
  progress("true", "pending");
  boundIs("pending");
}

/** Mark the answer as busy; the functions that show the parts of the next one. ``unknown`` ids are named in a note. */
export function showing({ info, body, actions, unknown }) {
  showPending();
  const gaps = []; // to the upper bound, in words, after each answer
  const shows = {
    onStep(slate) {
      showSlate({ slate, alone: null }, info, actions);
      showLeftOut(slate);
      showStatus(slate, info, unknown);
      progress("false", "pending");
      if (slate.version !== info.version) shows.onReloaded();
    },
    onSlate(slate) {
      shows.onStep(slate);
      offerLonger(slate, info.limits.budget_ms || USUAL, gaps, { info, body, shows });
      boundIs(backgroundBudget(slate, info.limits) === null ? "final" : "pending");
      every(".card", (card) => (card.hidden = false));
      every(".comparing", (note) => (note.textContent = note.dataset.words));
      byId("trouble").hidden = true;
    },
    onBound(slate, milliseconds) {
      showCertificate(slate, info);
      showStatus(slate, info, unknown);
      offerLonger(slate, milliseconds, gaps, { info, body, shows });
      shows.onFinal();
    },
    onFinal: () => boundIs("final"),
    onCompared(explained) {
      showSlate(explained, info, actions);
      showAttention(explained);
      showRivals(explained);
      showStatus(explained.slate, info, unknown);
      progress("false", "shown");
    },
    onUncompared(error) {
      every(".comparing", (note) => (note.textContent = `Not compared: ${error.message}`));
      progress("false", "none"); // the slate stays
    },
    onTrouble(error) {
      every(".card", (card) => (card.hidden = true)); // the cards show the previous request
      showTrouble(error);
    },
    onBusy: showBusy,
    onReloaded: actions.renew,
  };
  return shows;
}

function showLeftOut(slate) {
  const words = leftOutWords(slate);
  byId("left-out").hidden = words === null;
  byId("left-out").textContent = words;
}

function showStatus(slate, info, unknown) {
  byId("status").replaceChildren(
    `${many(slate.items.length)} in ${duration(spent(slate))}.`,
    aside(` Value ${figure(slate.value, valueDecimals(slate))}. ${verdict(slate, info.items)} ${leftOutWords(slate) ?? ""}`),
    ignoredWords([...new Set([...unknown, ...slate.ignored])]),
  );
}

const NAMED = 10; // ids and filters in a note

function ignoredWords(ignored) {
  if (ignored.length === 0) return "";
  const names = ignored.slice(0, NAMED).map((one) => cell(one) ?? "(blank)");
  const more = ignored.length > NAMED ? ` and ${ignored.length - NAMED} more` : "";
  return ` Not in the catalogue, so ignored: ${names.join(", ")}${more}.`;
}

export function showTrouble(error) {
  byId("trouble-text").textContent = error.message;
  byId("trouble").hidden = false;
  byId("status").textContent = "";
  progress("false", "none");
  boundIs("final");
}

export function showBusy(seconds) {
  byId("status").textContent = `The service is busy. Trying again in ${many(seconds, "second")}.`;
}
