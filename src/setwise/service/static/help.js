// What the page is and what its figures mean, in words of this catalogue: rewards may be probabilities or not.

import { byId, make } from "./dom.js";
import { noun, one } from "./words.js";

/** One sentence about the page, and one about the value. */
export function about({ hits, attends, understands_history: knows, features }) {
  const worth = hits
    ? `The value of a slate is the number of its ${noun()}s that you can be expected to choose: its expected hits.`
    : `The value of a slate is the sum of the rewards of its ${noun()}s.`;
  const why = attends
    ? `as a whole, because each ${noun()} is worth more or less beside the others.`
    : `together. This model has no attention: what ${one()} is worth does not depend on the others, so the best slate ` +
      `has the ${noun()}s of highest reward.`;
  const from = !knows && features.length ? "From the features of a user" : `From the ${noun()}s of your history`;
  return `${from}, this page recommends a slate: the set of ${noun()}s that is worth most ${why} ${worth}`;
}

export const valueWords = ({ hits }, k) => (hits ? `expected hits of ${k}, the value of this slate` : "value of this slate");

export function showHelp(info) {
  for (const [card, terms] of Object.entries(termsOf(info))) {
    byId(`${card}-help`).replaceChildren(
      ...terms.flatMap(([term, words]) => [make("dt", {}, term), make("dd", {}, words)]),
    );
  }
}

function termsOf({ hits }) {
  const reward = hits ? `the probability that this ${noun()} is chosen` : `what this ${noun()} is worth`;
  const slate = [
    ["Value", hits ? "The sum of these probabilities over the slate: the expected number of hits." : "The sum of the rewards of the slate."],
    ["Upper bound", "No feasible slate of this catalogue has a higher value. If the value reaches it, the slate is proven optimal."],
    ["Share of the optimum", "The value divided by the upper bound. The true share may be higher, as the bound may be too high."],
    ["Gap", "What is missing from the upper bound to the value, as a share of the bound. “Think longer” closes it."],
    ["Times", "Waiting in the queue, retrieving candidates, ranking them, and computing the upper bound."],
    ["Reward in the slate", `Dark bar and bold figure: ${reward} beside the others of the slate.`],
    ["Reward by itself", `Grey bar and grey figure: ${reward} if it is shown alone.`],
    ["Difference", "What the rest of the slate adds to it or takes from it."],
  ];
  const attention = [
    ["Contribution", "What one item adds to the argument of another item's reward: the sum over heads of attention times score."],
    ["Attention", "The share of its attention that an item gives to another. A head is one way to attend; the sink is none of the items."],
  ];
  const rivals = [
    ["Value", "By the same objective as that of the slate, with the difference from the slate."],
    ["Time", "For ranking alone, without retrieval and without the upper bound."],
  ];
  return { slate, attention, rivals };
}
