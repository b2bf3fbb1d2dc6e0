// JSON in which whole numbers beyond 2^53, such as ids of items, stay exact: they are BigInts here.

const DIGITS = /^-?\d+$/;

/** The value of a text; a SyntaxError if it is not JSON. */
export const read = (text) => JSON.parse(text, exact);

/** The text of a value. */
export const written = (value) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? JSON.rawJSON(`${one}`) : one));

function exact(_, value, context) {
  if (typeof value !== "number" || !Number.isInteger(value) || Number.isSafeInteger(value)) return value;
  if (context === undefined || JSON.rawJSON === undefined) {
    throw new Error("This browser rounds numbers as large as the ids of these items. Please use a newer one.");
  }
  return DIGITS.test(context.source) ? BigInt(context.source) : value;
}
