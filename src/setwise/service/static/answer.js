// The requests for one query: its slate, then a lower upper bound and the comparison with other methods. A new query
// cancels all.

import { ask, ServiceError } from "./api.js";
import { tightened } from "./certificate.js";

let running = null; // the AbortController of the query in progress

/** Cancel what is being asked; the signal of the query that takes its place. */
export function supersede() {
  running?.abort();
  running = new AbortController();
  return running.signal;
}

/** ``log: false``: a slate on this page is looked at, not shown to a customer. */
export const askSlate = (body, signal, onBusy) =>
  ask("v1/recommend", { body: { ...body, log: false }, signal, onBusy });

/**
 * Call ``onSlate(slate)`` with the slate as soon as it is known. Then compare it with other methods and, meanwhile, go on
 * with its upper bound.
 */
export async function answer(body, limits, shows) {
  const signal = supersede();
  let slate = null;
  try {
    slate = await askSlate(body, signal, shows.onBusy);
    if (!signal.aborted) shows.onSlate(slate);
  } catch (error) {
    if (!signal.aborted) shows.onTrouble(error);
  }
  if (slate === null || signal.aborted) return;
  const known = { best: slate };
  const bounded = goOn(body, known, limits, signal, shows); // asked first: it takes less time
  await Promise.all([bounded, compare(body, known, signal, shows)]);
}

export const USUAL = 100; // milliseconds that a request without a budget takes, about
const BACKGROUND = 700; // milliseconds: with those of the slate less than a second

/** The budget that a slate gets in the background; null where it needs none, or a busy service should not be asked. */
export function backgroundBudget({ proven, upper_bound: bound, left_out: lacks }, { budget_ms: usual, deadline_ms: deadline }) {
  const budget = Math.min(BACKGROUND, longest(deadline));
  return proven || bound === null || lacks.length || budget <= (usual || USUAL) ? null : budget;
}

/** Lower the upper bound of the slate, and call ``onBound(slate, milliseconds)``; a better slate takes its place. */
async function goOn(body, known, limits, signal, shows) {
  const budget = backgroundBudget(known.best, limits);
  if (budget === null) return;
  const shown = known.best;
  try {
    known.best = better(shown, await askSlate({ ...body, budget_ms: budget }, signal));
  } catch {
    if (!signal.aborted) shows.onFinal(); // what is shown holds without it
    return;
  }
  if (signal.aborted) return;
  const another = known.best.items !== shown.items;
  if (another) shows.onStep(known.best);
  shows.onBound(known.best, budget);
  if (another) await compare(body, known, signal, shows);
}

/**
 * The slate of higher value, of these two for the same query, with the lower bound; it lacks what both lack. After a reload
 * of the service values and bounds are those of another model: the next slate takes the place of the best.
 */
function better(best, next) {
  if (next.version !== best.version) return next;
  const lacks = best.left_out.filter((part) => next.left_out.includes(part));
  return { ...(next.value > best.value ? tightened(next, best) : tightened(best, next)), left_out: lacks };
}

/**
 * Ask again with the budgets after another, and call ``onStep(slate, milliseconds)`` with the best slate so far and the
 * lowest bound so far, which holds for it too; then compare.
 */
export async function thinkLonger(body, first, budgets, { onStep, onStopped, ...shows }) {
  const signal = supersede();
  const known = { best: first };
  try {
    for (const budget of budgets) {
      const next = await askSlate({ ...body, budget_ms: budget }, signal, shows.onBusy);
      if (signal.aborted) return;
      known.best = better(known.best, next);
      onStep(known.best, budget);
      if (known.best.proven) break;
    }
    onStopped();
  } catch (error) {
    if (signal.aborted) return;
    onStopped(error);
  }
  await compare(body, known, signal, shows);
}

const PATIENCE = 10_000; // milliseconds that somebody waits for one step

/** Most of the deadline: the answer must return within it. */
const longest = (deadline) => Math.min(PATIENCE, Math.round(0.9 * deadline));

/** Four times the time of each step before, which began with ``spent`` milliseconds. */
export function longerBudgets(spent, { deadline_ms: deadline }) {
  const most = longest(deadline);
  const budgets = [];
  for (let budget = 4 * spent; budget < most; budget *= 4) budgets.push(budget);
  return most > spent ? [...budgets, most] : [];
}

const RELOADED = "The service has another model since this slate. Change the query, or reload this page.";

/** Explain this very slate: a search of its own might end with another one. ``known`` may get a better one meanwhile. */
async function compare(body, known, signal, { onCompared, onUncompared, onReloaded, onBusy }) {
  const { items, version } = known.best;
  const current = () => !signal.aborted && known.best.items === items;
  try {
    const explained = await ask("v1/explain", { body: { ...body, items: items.map(({ id }) => id) }, signal, onBusy });
    if (current() && explained.slate.version !== version) {
      onReloaded();
      throw new ServiceError(RELOADED);
    }
    if (current()) onCompared({ ...explained, slate: known.best, rivals: timed(explained.rivals, known.best) });
  } catch (error) {
    if (current()) onUncompared(error);
  }
}

/** The explanation did not search for the slate: the time of its ranker is that of the first answer. */
const timed = (rivals, { timings }) =>
  rivals.map((rival) => (rival.ranker === "swap" ? { ...rival, milliseconds: timings.rank } : rival));
