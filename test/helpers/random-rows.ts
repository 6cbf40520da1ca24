import type { Millis } from '../../src/model/ids.js';
import type { Json, ReadingType, ReadingValue } from '../../src/model/reading.js';
import type { SpoolRow } from '../../src/model/row.js';
import type { Random } from './random.js';
import { gapRow, opaqueRow, reading, readingRow, T0 } from './rows.js';

const TEXTS = ['', 'running', 'grün ☃ 😀', 'nul \0 tab \t quote " slash \\ ', '<>&', 'NaN', '\u2028', 'x'.repeat(300)];

/** Rows of every type, in rising and sometimes broken seq order, with clocks that jump. */
export function randomRows(random: Random, count: number): SpoolRow[] {
  let seq = random.pick([0, 1000, 2 ** 32 + 5, 2 ** 50]);
  let ts = T0;
  return Array.from({ length: count }, () => {
    seq += random.chance(0.05) ? random.int(2, 2 ** 33) : 1;
    ts += random.chance(0.02) ? random.int(-(10 ** 10), 10 ** 10) : random.int(0, 3);
    const retain = random.chance(0.1);
    const kind = random.int(0, 9);
    if (kind === 0)
      return opaqueRow(seq, random.bytes(random.int(0, 40)), { topic: random.pick(['raw/a', 'raw/b']), retain });
    if (kind === 1) return randomGap(random, seq, ts);
    const type = random.pick<ReadingType>(['f', 'i', 'b', 's', 'x', 'j']);
    const value = random.chance(0.05) ? null : randomValue(random, type);
    const quality = random.chance(0.2) ? random.pick([0, 24, 64, 192, 193, 0xffff]) : 192;
    const metric = random.pick(['one', 'two', 'grün']);
    return readingRow(seq, reading(type, value, { metric, ts: ts as Millis, quality }), { retain });
  });
}

function randomGap(random: Random, seq: number, ts: number): SpoolRow {
  const gap = {
    from: (ts - random.int(0, 10 ** 9)) as Millis,
    to: ts as Millis,
    reason: random.pick(['device-unreachable', 'spool-full']),
    ...(random.chance(0.5) && { count: random.int(0, 10 ** 6) }),
    ...(random.chance(0.5) && { detail: random.pick(TEXTS) }),
  };
  return gapRow(seq, 'press01', random.chance(0.5) ? 'one' : null, gap);
}

export function randomValue(random: Random, type: ReadingType): ReadingValue {
  switch (type) {
    case 'f':
      return random.pick([
        random.double(),
        random.int(-1000, 1000) / 100,
        Math.fround(random.next()),
        random.int(-(10 ** 6), 10 ** 6),
        2 ** random.int(32, 1000),
        Number.NaN,
        Infinity,
        -Infinity,
        5e-324,
        1.7976931348623157e308,
      ]);
    case 'i':
      return random.pick<number | bigint>([
        random.int(-200, 200),
        random.int(-(2 ** 31) - 2, 2 ** 32 + 2),
        Number.MAX_SAFE_INTEGER,
        Number.MIN_SAFE_INTEGER,
        2n ** 53n,
        2n ** 53n + 1n,
        -(2n ** 63n),
        2n ** 63n - 1n,
        2n ** 63n,
        2n ** 64n - 1n,
      ]);
    case 'b':
      return random.chance(0.5);
    case 's':
      return random.pick(TEXTS);
    case 'x':
      return random.bytes(random.int(0, 40));
    case 'j':
      return randomJson(random, 3);
  }
}

function randomJson(random: Random, depth: number): Json {
  const kind = random.int(0, depth > 0 ? 6 : 4);
  switch (kind) {
    case 0:
      return random.chance(0.5);
    case 1:
      return random.pick(TEXTS);
    case 2:
      return random.int(-(10 ** 9), 10 ** 9) / 2 ** random.int(0, 40);
    case 3:
      return random.int(-(2 ** 40), 2 ** 40);
    case 4:
      return { only: random.pick([null, 2 ** 53, 1e300]) };
    case 5:
      return Array.from({ length: random.int(0, 4) }, () => randomJson(random, depth - 1));
    default:
      return Object.fromEntries(
        Array.from({ length: random.int(0, 4) }, (_, n) => [
          `${n}${random.pick(TEXTS)}`,
          randomJson(random, depth - 1),
        ]),
      );
  }
}
