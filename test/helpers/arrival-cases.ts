import assert from 'node:assert/strict';
import type { Historian, Outcome } from '../../src/ingest/historian.js';
import { backfill, hourOf } from '../../src/ingest/rollups.js';
import type { SpoolRow } from '../../src/model/row.js';
import { batchOf } from './batches.js';
import { stoppedClock } from './historian.js';
import { reading, readingRow } from './rows.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Age at which single readings go, in every case. */
export const RAW_HORIZON_MS = 7 * DAY;
const NOW = stoppedClock.now();
const H = hourOf(NOW) - 6 * HOUR;

const at = (seq: number, ts: number, value: number) => readingRow(seq, reading('f', value, { ts: ts as never }));

/** What a store holds: values in order of time, conflicts, quarantine as seq and reason, hours as bucket, count and sum. */
export interface Held {
  readonly values: readonly number[];
  readonly conflicts: readonly number[];
  readonly aside: readonly (readonly [number, string])[];
  readonly hours: readonly (readonly [number, number, number])[];
}

interface Case {
  readonly name: string;
  /** Each is rows and the epoch they come in; between any two of them the backfill runs. */
  readonly batches: readonly (readonly [readonly SpoolRow[], string?])[];
  /** What becomes of each batch: only what is not 0. */
  readonly outcomes: readonly Partial<Outcome>[];
  readonly held: Held;
}

const NOTHING: Held = { values: [], conflicts: [], aside: [], hours: [] };
const live = [at(1, H, 1), at(2, H + 1000, 2), at(3, H + 2 * HOUR, 3)];
const LIVE: Held = {
  ...NOTHING,
  values: [1, 2, 3],
  hours: [
    [H, 2, 3],
    [H + 2 * HOUR, 1, 3],
  ],
};

/** Every way in which rows have been seen to arrive. Both stores must do the same with each. */
export const ARRIVALS: readonly Case[] = [
  {
    name: 'late: into an hour that is done, and into one that never had a reading',
    batches: [[live], [[at(4, H + 500, 10), at(5, H + HOUR, 20)]]],
    outcomes: [{ stored: 3 }, { stored: 2 }],
    held: {
      ...NOTHING,
      values: [1, 10, 2, 20, 3],
      hours: [
        [H, 3, 13],
        [H + HOUR, 1, 20],
        [H + 2 * HOUR, 1, 3],
      ],
    },
  },
  {
    name: 'duplicate: the same batch, a part of it, and the same readings of another epoch',
    batches: [[live], [live], [live.slice(1, 2)], [live, 'e2']],
    outcomes: [{ stored: 3 }, { duplicates: 3 }, { duplicates: 1 }, { duplicates: 3 }],
    held: LIVE,
  },
  {
    name: 'conflicting: another value under a key that is taken, once and again',
    batches: [[live], [[at(9, H, 100)]], [[at(9, H, 100)]], [[at(9, H, 100)], 'e2']],
    outcomes: [{ stored: 3 }, { conflicts: 1 }, { duplicates: 1 }, { conflicts: 1 }],
    held: { ...LIVE, conflicts: [100, 100] },
  },
  {
    name: 'future: further ahead than a clock may be; the last millisecond that may be is stored',
    batches: [[live], [[at(4, NOW + 5 * 60_000 + 1, 4), at(5, NOW + 5 * 60_000, 5)]]],
    outcomes: [{ stored: 3 }, { stored: 1, quarantined: 1 }],
    held: {
      ...LIVE,
      values: [1, 2, 3, 5],
      aside: [[4, 'future']],
      hours: [...LIVE.hours, [hourOf(NOW + 5 * 60_000), 1, 5]],
    },
  },
  {
    name: 'ancient: from before the floor, which keeps the rollups of what it removed',
    batches: [[[at(1, NOW - 9 * DAY, 7)]], [[at(1, NOW - 9 * DAY, 7), at(2, NOW - 8 * DAY, 8)]], [live.slice(2)]],
    outcomes: [{ stored: 1 }, { quarantined: 2 }, { stored: 1 }],
    held: {
      ...NOTHING,
      values: [3],
      aside: [
        [1, 'too-old'],
        [2, 'too-old'],
      ],
      hours: [
        [hourOf(NOW - 9 * DAY), 1, 7],
        [H + 2 * HOUR, 1, 3],
      ],
    },
  },
  {
    name: 'out of order: newest batch first, oldest row last',
    batches: [[[...live].slice(2)], [[at(1, H + 1000, 2), at(2, H, 1)]]],
    outcomes: [{ stored: 1 }, { stored: 2 }],
    held: LIVE,
  },
  {
    name: 'interleaved with live: backlog of one epoch between readings of the next, some of them in both',
    batches: [
      [live.slice(2), 'e2'],
      [live.slice(0, 1), 'e1'],
      [[at(4, H + 3 * HOUR, 4)], 'e2'],
      [live, 'e1'],
    ],
    outcomes: [{ stored: 1 }, { stored: 1 }, { stored: 1 }, { stored: 1, duplicates: 2 }],
    held: { ...LIVE, values: [1, 2, 3, 4], hours: [...LIVE.hours, [H + 3 * HOUR, 1, 4]] },
  },
];

/** Runs one case; the historian is new, with the stopped clock and the horizon. */
export async function arrives({ batches, outcomes, held }: Case, historian: Historian, look: () => Promise<Held>) {
  for (const [n, [rows, epoch = 'e1']] of batches.entries()) {
    const outcome = await historian.ingest(batchOf(rows, 'line-1', epoch));
    const counted = Object.fromEntries(Object.entries(outcome).filter(([, count]) => count > 0));
    assert.deepEqual(counted, outcomes[n], `batch ${n + 1}`);
    const settled = async () => {
      const before = await look();
      assert.equal(await backfill(historian.rollups, stoppedClock.now, new AbortController().signal), true);
      assert.deepEqual(await look(), before, 'a backfill changes nothing that can be seen');
    };
    await settled();
    while (await historian.rollups.expire(stoppedClock.now()));
  }
  assert.deepEqual(await look(), held);
}
