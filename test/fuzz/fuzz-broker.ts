import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { type Log, silentLog } from '../../src/lib/log.js';
import { openPlant, RawClient } from '../helpers/broker.js';
import { Random } from '../helpers/random.js';
import { until } from '../helpers/wait.js';
import { mutatedConversation } from './conversations.js';

const AT_ONCE = 20;
/** Far above what the broker needs for a handful of sessions, far below what a leak in every round comes to. */
const GROWTH_BYTES_MAX = 200 * 1024 * 1024;

async function converse(port: number, random: Random): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.on('error', () => {});
  socket.resume();
  await Promise.race([once(socket, 'connect'), closed]).catch(() => {});
  for (const piece of mutatedConversation(random)) if (socket.writable) socket.write(piece);
  socket.end();
  await closed;
}

/**
 * Has mutated conversations with a broker while `more` says so, then asserts that nothing was thrown or logged as an error,
 * that memory is what it was, that an honest client is served and that the file can be opened again.
 */
export async function fuzzBroker(t: TestContext, seed: number, more: (round: number) => boolean): Promise<number> {
  const complaints: unknown[] = [];
  const log: Log = { ...silentLog, error: (...what: unknown[]) => void complaints.push(what), child: () => log };
  const limits = { connectRateMax: Number.POSITIVE_INFINITY };
  const plant = await openPlant(t, { log, limits });
  const thrown: unknown[] = [];
  const note = (error: unknown) => void thrown.push(error);
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, note);
    t.after(() => process.off(event, note));
  }
  const random = new Random(seed);
  const before = process.memoryUsage().rss;
  let round = 0;
  for (; more(round) && thrown.length === 0; round += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, () => converse(plant.port, random)));
  assert.deepEqual(thrown, []);
  assert.deepEqual(complaints, [], 'nothing was a surprise');
  await until('all are gone', () => plant.broker.status().clients === 0 && plant.broker.status().pending === 0);
  const growth = process.memoryUsage().rss - before;
  assert.ok(growth < GROWTH_BYTES_MAX, `memory grew by ${Math.round(growth / 1024 / 1024)} MiB`);
  for (const restart of [false, true]) {
    if (restart) await plant.restart({ limits });
    const sober = await RawClient.connect(t, plant.port, 'sober');
    sober.publish('x/y', 'still here', 1, 1);
    await sober.next('puback');
  }
  return round;
}
