// The button "Think longer", and how the gap to the upper bound closes meanwhile.

import { longerBudgets, thinkLonger } from "./answer.js";
import { byId } from "./dom.js";
import { duration, percent } from "./words.js";

/** Offer more time for a slate that is not proven optimal; ``shows`` are the functions that show the next answers. */
export function offerLonger(slate, info, body, shows) {
  const [button, budgets] = [byId("longer"), longerBudgets(info.limits)];
  const gaps = [gapAfter(slate, info.limits.budget_ms)];
  byId("closing").textContent = "";
  const uncertified = slate.upper_bound === null && slate.left_out.length === 0; // no more time brings a bound
  finish(slate.proven || uncertified || budgets.length === 0);
  button.onclick = () => {
    button.onclick = null;
    button.textContent = "Thinking …";
    thinkLonger(body, slate, budgets, {
      ...shows,
      onStep(better, milliseconds) {
        gaps.push(gapAfter(better, milliseconds));
        byId("closing").textContent = `Gap to the upper bound: ${gaps.join(", ")}.`;
        shows.onStep(better);
      },
      onStopped(error) {
        if (error) byId("closing").textContent += ` Stopped: ${error.message}`;
        finish(true);
      },
    });
  };
}

const gapAfter = ({ gap, proven }, milliseconds) =>
  `${proven ? "none" : gap === null ? "unknown" : percent(gap)} in ${duration(milliseconds)}`;

/** Without the button, the focus is not lost. */
function finish(hidden) {
  if (hidden && document.activeElement === byId("longer")) byId("copy").focus();
  byId("longer").textContent = "Think longer";
  byId("longer").hidden = hidden;
}
