// The button "Think longer", and how the gap to the upper bound closes meanwhile.

import { longerBudgets, thinkLonger } from "./answer.js";
import { byId } from "./dom.js";
import { duration, percent } from "./words.js";

/**
 * Offer more time for a slate that is not proven optimal, and name its gap after the last ``milliseconds``. ``gaps`` are
 * the words for those before, ``shows`` the functions that show the next answers.
 */
export function offerLonger(slate, milliseconds, gaps, { info, body, shows }) {
  const [button, budgets] = [byId("longer"), longerBudgets(milliseconds, info.limits)];
  showGap(slate, milliseconds, gaps);
  const uncertified = slate.upper_bound === null && slate.left_out.length === 0; // no more time brings a bound
  finish(slate.proven || uncertified || budgets.length === 0);
  button.onclick = () => {
    button.onclick = null;
    button.textContent = "Thinking …";
    thinkLonger(body, slate, budgets, {
      ...shows,
      onStep(better, spent) {
        showGap(better, spent, gaps);
        shows.onStep(better);
      },
      onStopped(error) {
        if (error) byId("closing").textContent += ` Stopped: ${error.message}`;
        finish(true);
        shows.onFinal();
      },
    });
  };
}

/** How the gap closes; the certificate has the first one already. */
function showGap(slate, milliseconds, gaps) {
  gaps.push(gapAfter(slate, milliseconds));
  byId("closing").textContent = gaps.length > 1 ? `Gap to the upper bound: ${gaps.join(", ")}.` : "";
}

const gapAfter = ({ gap, proven }, milliseconds) =>
  `${proven ? "none" : gap === null ? "unknown" : percent(gap)} in ${duration(milliseconds)}`;

/** Without the button, the focus is not lost. */
function finish(hidden) {
  if (hidden && document.activeElement === byId("longer")) byId("copy").focus();
  byId("longer").textContent = "Think longer";
  byId("longer").hidden = hidden;
}
