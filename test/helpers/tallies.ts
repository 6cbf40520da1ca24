import assert from 'node:assert/strict';
import type { Millis, Seq } from '../../src/model/ids.js';
import type { SpoolInput } from '../../src/model/row.js';
import type { Tally } from '../../src/model/tally.js';
import type { Spool } from '../../src/spool/spool.js';
import { parseTallies } from '../../src/wire/tally.js';
import { message, reading } from './spool.js';

const HOUR = 3_600_000;
const START = 1_790_000_000_000;

/** Row n: three of four are readings, whose times go back and forth over some hours. */
export function tallied(n: number): SpoolInput {
  return n % 4 === 3 ? message(n) : reading(n, START + (n % 5) * HOUR + n * 7);
}

/** What `tallied` rows from 1 to `last` add up to, worked out another way than the spool does it. */
export function truth(last: number): Tally[] {
  const tallies = new Map<string, Tally>();
  for (let seq = 1; seq <= last; seq++) {
    const { asset, metric, deviceTs } = tallied(seq);
    if (asset === null || metric === null || deviceTs === null) continue;
    const hour = (deviceTs - (deviceTs % HOUR)) as Millis;
    const key = `${asset}/${metric}/${hour}`;
    const { first, count, checksum } = tallies.get(key) ?? { first: seq as Seq, count: 0, checksum: 0 };
    const term = BigInt((seq % 65_521) + 1) * BigInt(((deviceTs % HOUR) % 65_521) + 1);
    const sum = Number((BigInt(checksum) + term) % 2n ** 32n);
    tallies.set(key, { asset, metric, hour, first, last: seq as Seq, count: count + 1, checksum: sum });
  }
  return inOrder([...tallies.values()]);
}

/** Every tally that stands in the spool's rows after `after`, the newest of each. */
export async function told(spool: Spool, after = 0): Promise<Tally[]> {
  const tallies = new Map<string, Tally>();
  for (const row of await spool.peek(after as Seq, 1_000_000, 1 << 30)) {
    const record = parseTallies(row);
    if (!record) continue;
    assert.ok(record.upTo < row.seq);
    for (const tally of record.tallies)
      tallies.set(`${tally.asset}/${tally.metric}/${tally.hour}/${tally.first}`, tally);
  }
  return inOrder([...tallies.values()]);
}

function inOrder(tallies: readonly Tally[]): Tally[] {
  return [...tallies].sort((a, b) => a.first - b.first);
}
