import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Forecast } from '../../src/gateway/forecast.js';
import { SpoolRoom } from '../../src/gateway/spool-room.js';
import type { Clock } from '../../src/lib/clock.js';
import type { Log } from '../../src/lib/log.js';
import type { Millis, Seq } from '../../src/model/ids.js';
import type { Spool } from '../../src/spool/spool.js';
import { layoutOf, SPOOL_BYTES_MIN } from '../../src/store/layout.js';
import type { Store } from '../../src/store/store.js';
import { tempDir } from '../helpers/tmp.js';

const MIB = 1024 * 1024;

class FakeClock implements Clock {
  at = 1_000_000;
  now = () => this.at as Millis;
  mono = () => this.at;
}

/** A room around numbers instead of a file, which is what it decides by. */
async function roomOf(t: TestContext, { drops = false } = {}) {
  const layout = layoutOf(64 * MIB);
  const spool = { usedBytes: 0, freeBytes: 0, dropCalls: 0, bytesIn: 0 };
  const store = { state: 'open', waitingBytes: 0 };
  const warnings: object[] = [];
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => warnings.push(fields) } as unknown as Log;
  const clock = new FakeClock();
  const fake = {
    ...spool,
    stats: async () => ({ bytes: 0, bytesIn: fake.bytesIn, dropped: 0 }),
    drop: async () => ++fake.dropCalls,
  };
  const room = await SpoolRoom.open({
    spool: fake as unknown as Spool,
    store: store as unknown as Store,
    path: `${tempDir(t)}/spool.db`,
    layout,
    diskFreeMin: 0,
    readUpTo: () => 0 as Seq,
    drops,
    clock,
    log,
  });
  t.after(() => room.close());
  const look = () => (room as unknown as { look(): Promise<void> }).look();
  return { room, spool: fake, store, warnings, layout, look };
}

test('full at the ceiling, and open again only when there is some room below it', async (t) => {
  const { room, spool, layout } = await roomOf(t);
  spool.usedBytes = layout.rowsBytesMax - 1;
  assert.equal(room.hasRoom(false), true);
  spool.usedBytes = layout.rowsBytesMax;
  assert.equal(room.hasRoom(false), false);
  assert.match(room.problem ?? '', /spool.bytesMax/);
  spool.usedBytes = layout.rowsBytesMax * 0.99;
  assert.equal(room.hasRoom(false), false, 'it does not flutter');
  spool.usedBytes = layout.rowsBytesMax * 0.97;
  assert.equal(room.hasRoom(false), true);
  assert.equal(room.problem, undefined);
});

test('what waits to be committed counts, and a full device closes the room at once', async (t) => {
  const { room, store, layout } = await roomOf(t);
  store.waitingBytes = layout.rowsBytesMax;
  assert.equal(room.hasRoom(false), false);
  store.waitingBytes = 0;
  assert.equal(room.hasRoom(false), true);
  store.state = 'full';
  assert.equal(room.hasRoom(true), false);
  assert.equal(room.hasRoom(false), false);
  assert.match(room.problem ?? '', /the device is full/);
});

test('droppable rows pass while older ones are dropped, up to a point', async (t) => {
  const { room, spool, layout } = await roomOf(t, { drops: true });
  spool.usedBytes = layout.rowsBytesMax;
  assert.equal(room.hasRoom(true), true);
  assert.equal(room.hasRoom(false), false);
  await Promise.resolve();
  spool.usedBytes = layout.rowsBytesMax * 1.06;
  assert.equal(room.hasRoom(true), false);
});

test('70, 85 and 95 %: one alarm per crossing, none for trembling at a threshold', async (t) => {
  const { room, spool, warnings, layout, look } = await roomOf(t);
  const alarms: number[] = [];
  for (const share of [0.5, 0.71, 0.695, 0.71, 0.8, 0.9, 0.96, 0.99, 0.96, 0.6, 0.72]) {
    spool.usedBytes = layout.rowsBytesMax * share;
    await look();
    alarms.push(room.alarm);
  }
  assert.deepEqual(alarms, [0, 0.7, 0.7, 0.7, 0.7, 0.85, 0.95, 0.95, 0.95, 0, 0.7]);
  assert.equal(warnings.length, 4);
});

test('at a constant rate the forecast is within 10 % of the truth', () => {
  const clock = new FakeClock();
  const forecast = new Forecast(clock);
  let bytesIn = 0;
  for (let second = 0; second < 300; second++) {
    forecast.sample(bytesIn);
    // Bursts, 1000 bytes a second on average.
    bytesIn += second % 10 === 0 ? 10_000 : 0;
    clock.at += 1_000;
  }
  const left = forecast.secondsUntilFull(3_600_000, bytesIn) as number;
  assert.ok(Math.abs(left - 3_600) < 360, `${left}`);
  clock.at += 600_000;
  for (let second = 0; second < 130; second++) {
    forecast.sample(bytesIn);
    clock.at += 1_000;
  }
  assert.equal(forecast.secondsUntilFull(3_600_000, bytesIn), null, 'nothing comes in');
});

test('the parts of a layout stay below the ceiling, whatever it is', () => {
  for (const bytesMax of [SPOOL_BYTES_MIN, 8 * MIB, 24 * MIB, 256 * MIB, 2048 * MIB, 1024 * 1024 * MIB]) {
    const { pagesMax, logPagesMax, groupBytesMax, ballastBytes, rowsBytesMax } = layoutOf(bytesMax);
    assert.ok(pagesMax * 4096 + logPagesMax * 4096 + groupBytesMax + ballastBytes <= bytesMax);
    assert.ok(rowsBytesMax > bytesMax / 2, `${bytesMax}`);
    assert.ok(ballastBytes >= logPagesMax * 4096 + groupBytesMax);
  }
});
