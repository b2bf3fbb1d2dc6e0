// The requests for one query: first its slate, then the comparison with other methods. A new query cancels both.

import { ask } from "./api.js";
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

/** Call ``onSlate(slate)`` with the slate as soon as it is known, then ``onCompared(explained)``. */
export async function answer(body, { onSlate, onCompared, onTrouble, onUncompared, onBusy }) {
  const signal = supersede();
  let slate = null;
  try {
    slate = await askSlate(body, signal, onBusy);
    if (!signal.aborted) onSlate(slate);
  } catch (error) {
    if (!signal.aborted) onTrouble(error);
  }
  if (slate !== null && !signal.aborted) await compare(body, slate, signal, { onCompared, onUncompared, onBusy });
}

/**
 * Ask again with the budgets after another, and call ``onStep(slate, milliseconds)`` with the best slate so far and the
 * lowest bound so far, which holds for it too; then compare.
 */
export async function thinkLonger(body, first, budgets, { onStep, onStopped, ...shows }) {
  const signal = supersede();
  let best = first;
  try {
    for (const budget of budgets) {
      const next = await askSlate({ ...body, budget_ms: budget }, signal, shows.onBusy);
      if (signal.aborted) return;
      const lacks = best.left_out.filter((part) => next.left_out.includes(part));
      best = { ...(next.value >= best.value ? tightened(next, best) : tightened(best, next)), left_out: lacks };
      onStep(best, budget);
      if (best.proven) break;
    }
    onStopped();
  } catch (error) {
    if (signal.aborted) return;
    onStopped(error);
  }
  await compare(body, best, signal, shows);
}

const PATIENCE = 10_000; // milliseconds that somebody waits for one step

/** Four times the time of each step before, up to most of the deadline: the answer must return within it. */
export function longerBudgets({ budget_ms: usual, deadline_ms: deadline }) {
  const most = Math.min(PATIENCE, Math.round(0.9 * deadline));
  const budgets = [];
  for (let budget = 4 * usual; budget < most; budget *= 4) budgets.push(budget);
  return most > usual ? [...budgets, most] : [];
}

/** Explain this very slate: a search of its own might end with another one. */
async function compare(body, slate, signal, { onCompared, onUncompared, onBusy }) {
  try {
    const items = slate.items.map((item) => item.id);
    const explained = await ask("v1/explain", { body: { ...body, items }, signal, onBusy });
    if (!signal.aborted) onCompared({ ...explained, slate, rivals: timed(explained.rivals, slate) });
  } catch (error) {
    if (!signal.aborted) onUncompared(error);
  }
}

/** The explanation did not search for the slate: the time of its ranker is that of the first answer. */
const timed = (rivals, { timings }) =>
  rivals.map((rival) => (rival.ranker === "swap" ? { ...rival, milliseconds: timings.rank } : rival));
