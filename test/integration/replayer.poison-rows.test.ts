import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import mqttPacket, { type IPublishPacket } from 'mqtt-packet';
import type { Seq } from '../../src/model/ids.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { flipBit } from '../helpers/damage.js';
import { message, openSpool } from '../helpers/spool.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { tempDir } from '../helpers/tmp.js';
import { range, startReplayer } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

type Answer = 'take' | 'reset' | { readonly puback: number } | { readonly disconnect: number };

/** A hub that takes every batch but those that `judge` says otherwise of. */
async function openHub(t: TestContext, judge: (seqs: readonly number[]) => Answer) {
  const broker = await TinyBroker.open(t);
  const taken = new Set<number>();
  const lost: number[] = [];
  const sizes: number[] = [];
  const hub = { port: Number(new URL(broker.url).port), taken, lost, sizes, judge, publishes: 0 };
  const answer = (packet: IPublishPacket, socket: Socket) => {
    const send = (reply: Parameters<typeof mqttPacket.generate>[0]) =>
      socket.write(mqttPacket.generate(reply, { protocolVersion: 5 }));
    const batch = decodeBatch(packet.payload as Buffer);
    const seqs = batch.rows.map((row) => row.seq as number);
    hub.publishes++;
    sizes.push(seqs.length);
    const verdict = hub.judge(seqs);
    if (verdict === 'reset') socket.resetAndDestroy();
    else if (verdict === 'take') {
      for (const seq of seqs) taken.add(seq);
      for (const { from, to } of batch.lost) lost.push(...range(from, to));
      send({ cmd: 'puback', messageId: packet.messageId as number, reasonCode: 0 });
    } else if ('puback' in verdict)
      send({ cmd: 'puback', messageId: packet.messageId as number, reasonCode: verdict.puback });
    else {
      send({ cmd: 'disconnect', reasonCode: verdict.disconnect });
      socket.end();
    }
  };
  broker.intercept = (packet, socket) => {
    if (packet.cmd !== 'publish') return false;
    answer(packet, socket);
    return true;
  };
  return hub;
}

async function spoolWith(t: TestContext, rows: number) {
  const opened = await openSpool(t, join(tempDir(t), 'spool.db'));
  await opened.spool.enqueue(range(1, rows).map((n) => message(n)));
  return opened;
}

const fast = { backoff: { minMs: 1, maxMs: 5 } };

for (const [name, verdict] of [
  ['ends the connection', 'reset'],
  ['is refused with "payload format invalid"', { puback: 0x99 }],
  ['is disconnected for with "packet too large"', { disconnect: 0x95 }],
] as const) {
  test(`one row that ${name} every time: it alone is set aside, everything else arrives`, async (t) => {
    const poison = 137;
    const { spool } = await spoolWith(t, 200);
    const hub = await openHub(t, (seqs) => (seqs.includes(poison) ? verdict : 'take'));
    startReplayer(t, spool, hub.port, { ...fast, batchRowsMax: 50, ackTimeoutMs: 5_000 });
    await until('drained', async () => (await spool.stats()).rows === 0, 30_000);
    assert.deepEqual(
      [...hub.taken].sort((a, b) => a - b),
      range(1, 200).filter((seq) => seq !== poison),
    );
    const stats = await spool.stats();
    assert.deepEqual([stats.received, stats.acknowledged, stats.dead, stats.balanced], [200, 199, 1, true]);
    const [letter] = await spool.dead(10);
    assert.equal(letter?.seq, poison);
    assert.match(letter?.reason ?? '', /^refused: /);
    await until('the cloud knows that it will not come', () => hub.lost.includes(poison));
    assert.deepEqual([...new Set(hub.lost)], [poison]);

    hub.judge = () => 'take';
    assert.equal(await spool.requeue(poison as Seq), 201);
    await until('it goes once the hub takes it', () => hub.taken.has(201));
    await until('released', async () => (await spool.stats()).rows === 0);
    const after = await spool.stats();
    assert.deepEqual([after.received, after.acknowledged, after.dead, after.balanced], [200, 200, 0, true]);
  });
}

test('two bad rows side by side, and the very first one', async (t) => {
  const bad = new Set([1, 40, 41]);
  const { spool } = await spoolWith(t, 60);
  const hub = await openHub(t, (seqs) => (seqs.some((seq) => bad.has(seq)) ? 'reset' : 'take'));
  startReplayer(t, spool, hub.port, { ...fast, batchRowsMax: 20, ackTimeoutMs: 5_000 });
  await until('drained', async () => (await spool.stats()).rows === 0, 30_000);
  assert.deepEqual(
    (await spool.dead(10)).map(({ seq }) => seq),
    [1, 40, 41],
  );
  assert.equal(hub.taken.size, 57);
});

test('a cloud that takes nothing at all: no row is blamed, everything is kept, and the state says so', async (t) => {
  for (const verdict of ['reset', { puback: 0x90 }] as const) {
    const { spool } = await spoolWith(t, 30);
    const hub = await openHub(t, () => verdict);
    const replayer = startReplayer(t, spool, hub.port, { ...fast, batchRowsMax: 8, ackTimeoutMs: 5_000 });
    await until('held', () => /no other row either/.test(replayer.status(30).cause ?? ''));
    const seen = hub.publishes;
    await until('it goes on trying', () => hub.publishes > seen + 20);
    const stats = await spool.stats();
    assert.deepEqual([stats.rows, stats.dead], [30, 0]);
    hub.judge = () => 'take';
    await until('drained', async () => (await spool.stats()).rows === 0);
    assert.equal(hub.taken.size, 30);
    await replayer.stop(0);
  }
});

test('not authorised is nobody’s fault: held, alarmed, kept', async (t) => {
  for (const verdict of [{ puback: 0x87 }, { disconnect: 0x87 }] as const) {
    const { spool } = await spoolWith(t, 10);
    const hub = await openHub(t, () => verdict);
    const replayer = startReplayer(t, spool, hub.port, { ...fast, batchRowsMax: 1, ackTimeoutMs: 5_000 });
    await until('many refusals', () => hub.publishes > 20);
    const { state, cause } = replayer.status(10);
    assert.equal(state, 'held');
    assert.match(cause ?? '', /not authorised/);
    assert.ok(hub.sizes.every((size) => size === 1));
    assert.equal((await spool.stats()).dead, 0);
    await replayer.stop(0);
  }
});

test('a row whose bytes have changed on the disk is not sent: it is set aside, and the cloud is told', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const first = await openSpool(t, path);
  await first.spool.enqueue(range(1, 40).map((n) => message(n, Buffer.from(`value ${n} of the plant`))));
  await first.store.close();
  for (const n of [7, 8, 40]) flipBit(path, readFileSync(path).indexOf(`value ${n} of the plant`) + 3, 1);

  const { spool, store } = await openSpool(t, path);
  assert.equal(store.damage, undefined, 'SQLite sees nothing wrong with it');
  const hub = await openHub(t, () => 'take');
  startReplayer(t, spool, hub.port, fast);
  await until('drained', async () => (await spool.stats()).rows === 0);
  assert.deepEqual(
    [...hub.taken].sort((a, b) => a - b),
    range(1, 39).filter((n) => n !== 7 && n !== 8),
  );
  await until('told', () => new Set(hub.lost).size === 3);
  assert.deepEqual(
    (await spool.dead(10)).map(({ seq, reason }) => [seq, reason]),
    [7, 8, 40].map((seq) => [seq, 'spool-corrupt']),
  );
  assert.ok((await spool.stats()).balanced);
});
