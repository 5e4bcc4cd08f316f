// JSON whose numbers keep the text in which they were written.
//
// A number that JavaScript would write in another way (1.0, 1e400, an integer above 2^53, a long decimal) becomes an
// `ExactNumber`; every other value is what JSON.parse makes of it. An ExactNumber counts and compares as a number but is
// an object: ask `isNumber`, not `typeof`. JSON.stringify writes its text. A browser without JSON.rawJSON (before 2025)
// shows and sends the nearest number of JavaScript.

const IS_SUPPORTED = typeof JSON.rawJSON === "function";
// What may be written in another way: 16 digits or more, an exponent, a zero at the end of a fraction, a small fraction
// (0.0000001 is 1e-7), a negative zero.
const MAY_DIFFER = /\d[\d.]{15}|\d[eE]|\.\d*0(?!\d)|0\.0{6}|-0(?!\.)/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export class ExactNumber extends Number {
  constructor(text) {
    super(text);
    Object.defineProperty(this, "text", { value: text });
  }
  toString() { return this.text; }
  toJSON() { return IS_SUPPORTED ? JSON.rawJSON(this.text) : Number(this.text); }
}

/** The number that a text is in JSON: a number of JavaScript, or an ExactNumber; undefined for other text. */
export function numberOf(text) {
  if (!NUMBER.test(text)) return undefined;
  return String(Number(text)) === text ? Number(text) : new ExactNumber(text);
}

/** As JSON.parse, with exact numbers. */
export function parseExact(text) {
  if (!IS_SUPPORTED || !MAY_DIFFER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value, { source } = {}) => (typeof value === "number" && source !== undefined && String(value) !== source ? new ExactNumber(source) : value));
}

export const isNumber = (value) => typeof value === "number" || value instanceof ExactNumber;

/** Whether a value is an object or a list, and no number. */
export const isContainer = (value) => typeof value === "object" && value !== null && !(value instanceof ExactNumber);

/** A copy with numbers of JavaScript only, for code that knows no others. */
export const plain = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));
