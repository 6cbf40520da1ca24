import assert from 'node:assert/strict';
import { knownGaps, silentDevices } from '../../src/ingest/gaps.js';
import type { Historian } from '../../src/ingest/historian.js';
import type { Records } from '../../src/ingest/records.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from './batches.js';
import { gapRow, reading, readingRow } from './rows.js';

const MINUTE = 60_000;

export interface StatusRow {
  readonly kind: string;
  readonly state: string;
  readonly asset_id: string;
  readonly reason: string;
}

/** Silent devices and the states of gaps, in the reports and in the view, on either store. Needs the machine's clock. */
export async function silentAndKnown(historian: Historian, records: Records, view: () => Promise<StatusRow[]>) {
  const now = Date.now();
  let seq = 0;
  const steady = (asset: string, until: number, stepMs: number, count = 40) =>
    Array.from({ length: count }, (_, n) =>
      readingRow(++seq, reading('f', n, { asset, ts: (until - (count - 1 - n) * stepMs) as Millis })),
    );
  const gap = (asset: string, from: number, to: number, reason = 'device-unreachable') =>
    gapRow(++seq, asset, null, { from: from as Millis, to: to as Millis, reason: reason as never, count: 2 });
  const ago = (minutes: number) => now - minutes * MINUTE;
  await historian.ingest(
    batchOf([
      ...steady('dead', ago(60), 1000),
      ...steady('alive', now, 1000),
      // Once an hour is its pace, so an hour without a reading is nothing.
      ...steady('slow', ago(90), 60 * MINUTE),
      ...steady('new', ago(30), 1000, 12),
      // An outage among its last readings does not make it a slow one.
      ...steady('patchy', ago(200), 1000, 30),
      ...steady('patchy', ago(50), 1000, 15),
      gap('alive', ago(0.4), ago(0.2)),
      gap('slow', ago(80), ago(30)),
      gap('dead', ago(100), ago(80), 'gateway-down'),
    ]),
  );
  await historian.ingest(batchOf(steady('behind', ago(240), 1000), 'line-2'));

  const window = { from: 0 as Millis, to: (now + MINUTE) as Millis, asset: undefined };
  const silent = await silentDevices(records, window);
  assert.deepEqual(
    silent.map(({ asset, state, from, intervalMs, gateway }) => [asset, state, from, intervalMs, gateway]),
    [
      ['behind', 'late', ago(240), 1000, 'line-2'],
      ['dead', 'open', ago(60), 1000, 'line-1'],
      ['patchy', 'open', ago(50), 1000, 'line-1'],
    ],
  );
  assert.deepEqual(
    (await silentDevices(records, { ...window, asset: 'dead' })).map(({ asset }) => asset),
    ['dead'],
  );

  const gaps = await knownGaps(records, window);
  const states = gaps.map(({ asset, state, reason }) => `gap ${state} ${asset} ${reason}`);
  assert.deepEqual(states.sort(), [
    'gap filled alive device-unreachable',
    'gap lost dead gateway-down',
    'gap open slow device-unreachable',
  ]);
  const rows = (await view()).map(({ kind, state, asset_id, reason }) => `${kind} ${state} ${asset_id} ${reason}`);
  const expected = [...states, ...silent.map(({ state, asset }) => `silent ${state} ${asset} silent`)];
  assert.deepEqual(rows.sort(), expected.sort());
}
