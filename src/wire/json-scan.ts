import { isUtf8 } from 'node:buffer';

/**
 * A JSON reader over bytes that refuses to lose anything. `JSON.parse` silently keeps the last of two equal keys, rounds
 * integers beyond 2⁵³ and replaces broken UTF-8; a message that has one of those must be carried as it is instead. It is
 * also several times faster on the short objects that readings are, because it makes no intermediate string.
 */

/** Like Json, with the integers that a double cannot hold as BigInt. */
export type WideJson = null | boolean | number | bigint | string | WideJson[] | { [key: string]: WideJson };

/** Why the bytes cannot be carried as JSON. No Error: it is thrown for every odd message, and a stack costs more than the parse. */
export class JsonProblem {
  readonly problem: string;

  constructor(problem: string) {
    this.problem = problem;
  }
}

/** Deeper values exist only to exhaust the stack of whoever reads them. */
const DEPTH_MAX = 32;
/** A double has at most 309 digits before the point; parsing longer ones is work for nothing. */
const INTEGER_DIGITS_MAX = 310;
/** Up to here a mantissa is an exact double, and so is 10ⁿ: their quotient is the correctly rounded value (Clinger 1990). */
const EXACT_DIGITS = 15;
const POWERS_OF_TEN = Array.from({ length: EXACT_DIGITS + 1 }, (_, n) => 10 ** n);
const LONE_SURROGATE = /\p{Surrogate}/u;

const EMPTY = Buffer.alloc(0);
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;

export class JsonScanner {
  /** Of the number scanned last: it was written without fraction and exponent. */
  integerLiteral = false;
  private bytes: Buffer = EMPTY;
  private at = 0;
  private nonAscii = false;

  start(bytes: Uint8Array): void {
    this.bytes = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.nonAscii = false;
  }

  /** Forgets the input, so that a small slice does not keep a large buffer alive. */
  release(): void {
    this.bytes = EMPTY;
  }

  /** The next byte that is no blank, without taking it; -1 at the end. */
  peek(): number {
    const { bytes } = this;
    for (; this.at < bytes.length; this.at++) {
      const byte = bytes[this.at] as number;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
    }
    return -1;
  }

  /** Takes the next byte that is no blank if it is `byte`. */
  take(byte: number): boolean {
    if (this.peek() !== byte) return false;
    this.at++;
    return true;
  }

  expect(byte: number): void {
    if (!this.take(byte)) this.fail(`expected ${String.fromCharCode(byte)}`);
  }

  /** Takes the string literal `"word"` if it is next; cheaper than making a string to compare. `quoted` has the quotes. */
  takeWord(quoted: Uint8Array): boolean {
    this.peek();
    for (let n = 0; n < quoted.length; n++) if (this.bytes[this.at + n] !== quoted[n]) return false;
    this.at += quoted.length;
    return true;
  }

  /** Nothing but blanks may follow, and all of it must have been UTF-8. */
  finish(): void {
    if (this.peek() !== -1) this.fail('unexpected content after the value');
    if (this.nonAscii && !isUtf8(this.bytes)) throw new JsonProblem('not valid UTF-8');
  }

  value(depth = 0): WideJson {
    switch (this.peek()) {
      case QUOTE:
        return this.string();
      case 0x7b:
        return this.object(depth + 1);
      case 0x5b:
        return this.array(depth + 1);
      case 0x74:
        return this.literal('true', true);
      case 0x66:
        return this.literal('false', false);
      case 0x6e:
        return this.literal('null', null);
      default:
        return this.number();
    }
  }

  /** A BigInt exactly when the literal is an integer that a double cannot hold. */
  number(): number | bigint {
    this.peek();
    const { bytes } = this;
    const start = this.at;
    const negative = bytes[start] === MINUS;
    let at = negative ? start + 1 : start;
    let mantissa = 0;
    const first = at;
    for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number)
      mantissa = mantissa * 10 + (byte - ZERO);
    let digits = at - first;
    if (digits === 0 || (digits > 1 && bytes[first] === ZERO)) this.fail('expected a value');
    let decimals = 0;
    if (bytes[at] === DOT) {
      const point = at++;
      for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number)
        mantissa = mantissa * 10 + (byte - ZERO);
      decimals = at - point - 1;
      if (decimals === 0) this.fail('expected a digit after the point');
      digits += decimals;
    }
    const exponent = bytes[at] === 0x65 || bytes[at] === 0x45;
    if (exponent) {
      at++;
      if (bytes[at] === MINUS || bytes[at] === 0x2b) at++;
      const from = at;
      while ((bytes[at] as number) >= ZERO && (bytes[at] as number) <= NINE) at++;
      if (at === from) this.fail('expected a digit in the exponent');
    }
    this.at = at;
    this.integerLiteral = decimals === 0 && !exponent;
    if (!exponent && digits <= EXACT_DIGITS) {
      const size = decimals === 0 ? mantissa : mantissa / (POWERS_OF_TEN[decimals] as number);
      return negative ? -size : size;
    }
    return this.longNumber(bytes.toString('latin1', start, at), digits);
  }

  private longNumber(text: string, digits: number): number | bigint {
    const rounded = Number(text);
    if (!Number.isFinite(rounded)) throw new JsonProblem('a number is out of range');
    if (!this.integerLiteral || Number.isSafeInteger(rounded)) return rounded;
    if (digits > INTEGER_DIGITS_MAX) throw new JsonProblem('a number is out of range');
    const exact = BigInt(text);
    return BigInt(rounded) === exact ? rounded : exact;
  }

  string(): string {
    this.expect(QUOTE);
    const { bytes } = this;
    const start = this.at;
    let ascii = true;
    let escaped = false;
    let at = start;
    for (; ; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) break;
      if (byte === undefined || byte < 0x20) this.fail('a string is not closed');
      if (byte >= 0x80) ascii = false;
      else if (byte === BACKSLASH) {
        escaped = true;
        at++;
      }
    }
    this.at = at + 1;
    if (!ascii) this.nonAscii = true;
    const text = bytes.toString(ascii ? 'latin1' : 'utf8', start, at);
    return escaped ? unescaped(text) : text;
  }

  private literal<T>(word: string, value: T): T {
    for (let n = 0; n < word.length; n++)
      if (this.bytes[this.at + n] !== word.charCodeAt(n)) this.fail('expected a value');
    this.at += word.length;
    return value;
  }

  private array(depth: number): WideJson[] {
    this.expect(0x5b);
    if (depth > DEPTH_MAX) throw new JsonProblem(`nested deeper than ${DEPTH_MAX} levels`);
    const items: WideJson[] = [];
    if (this.take(0x5d)) return items;
    do items.push(this.value(depth));
    while (this.take(0x2c));
    this.expect(0x5d);
    return items;
  }

  private object(depth: number): { [key: string]: WideJson } {
    this.expect(0x7b);
    if (depth > DEPTH_MAX) throw new JsonProblem(`nested deeper than ${DEPTH_MAX} levels`);
    const object: { [key: string]: WideJson } = {};
    if (this.take(0x7d)) return object;
    do {
      const key = this.string();
      // Readers of msgpack rename or refuse this key, so it would not arrive as it left.
      if (key === '__proto__') throw new JsonProblem('the key __proto__ cannot be carried');
      if (Object.hasOwn(object, key)) throw new JsonProblem(`duplicate key ${JSON.stringify(key)}`);
      this.expect(0x3a);
      object[key] = this.value(depth);
    } while (this.take(0x2c));
    this.expect(0x7d);
    return object;
  }

  fail(what: string): never {
    throw new JsonProblem(`not valid JSON: ${what} at byte ${this.at}`);
  }
}

function unescaped(text: string): string {
  let value: string;
  try {
    value = JSON.parse(`"${text}"`);
  } catch {
    throw new JsonProblem('not valid JSON: bad escape in a string');
  }
  // UTF-8 has no form for half a surrogate pair: it would arrive as U+FFFD.
  if (LONE_SURROGATE.test(value)) throw new JsonProblem('a string holds a lone surrogate');
  return value;
}
