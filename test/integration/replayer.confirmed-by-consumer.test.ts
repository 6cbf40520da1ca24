import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connectAsync } from 'mqtt';
import mqttPacket, { type Packet } from 'mqtt-packet';
import { mergeRanges } from '../../src/ingest/ledger.js';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { type Ack, encodeAck } from '../../src/wire/ack.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { ACK_TOPIC, startConfirmed } from '../helpers/confirmed.js';
import { openIngest } from '../helpers/ingest.js';
import { openSpool, reading } from '../helpers/spool.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { tempDir } from '../helpers/tmp.js';
import { range } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

async function spoolWith(t: TestContext, rows: number) {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(range(1, rows).map((n) => reading(n)));
  return { spool, rows: async () => (await spool.stats()).rows };
}

/** A broker that takes everything, and a consumer whose words the test chooses. */
async function openCloud(t: TestContext) {
  const seen: number[][] = [];
  const lost: { from: number; to: number; reason: string }[] = [];
  const asked: (boolean | undefined)[] = [];
  const cloud = await FaultBroker.open({
    port: 0,
    onPublish: ({ topic, payload }) => {
      if (topic === ACK_TOPIC) return;
      const batch = decodeBatch(payload);
      asked.push(batch.ack);
      seen.push(batch.rows.map(({ seq }) => seq));
      lost.push(...batch.lost);
    },
  });
  t.after(() => cloud.close());
  const client = await connectAsync(`mqtt://127.0.0.1:${cloud.port}`, { protocolVersion: 5 });
  t.after(() => client.endAsync(true));
  const say = (text: string | Buffer, retain = false) => client.publishAsync(ACK_TOPIC, text, { qos: 1, retain });
  return { cloud, seen, lost, asked, say };
}

for (const protocolVersion of [4, 5] as const)
  test(`MQTT ${protocolVersion}: a PUBACK deletes nothing; an ingest that is there confirms everything`, async (t) => {
    const { spool, rows } = await spoolWith(t, 200);
    const { cloud, asked } = await openCloud(t);
    const { replayer, upstream } = startConfirmed(t, spool, cloud.port, { protocolVersion });
    const status = await until('stalled', () => {
      const now = replayer.status(200);
      return now.state === 'stalled' && now;
    });
    assert.match(status.cause ?? '', /consumer behind it does not confirm seq 1\b/);
    assert.equal(await rows(), 200);
    assert.equal(status.connects, 1, 'a silent consumer is no reason to connect anew');
    assert.ok(asked.every((ack) => ack === true));

    const { ingest } = await openIngest(t, `mqtt://127.0.0.1:${cloud.port}`, { broker: { protocolVersion } });
    await until('everything is confirmed', async () => (await rows()) === 0);
    assert.equal(ingest.status().missing, 0);
    assert.equal(ingest.status().stored, 200);
    assert.equal(replayer.status(0).state, 'online');
    assert.ok(upstream.acks.believed > 0);
    const { believed, older, ...lies } = upstream.acks;
    assert.deepEqual(lies, { malformed: 0, foreign: 0, beyond: 0, retained: 0 });
  });

test('until the consumer is heard, no more than the window goes out, and of it only the oldest batch again', async (t) => {
  const { spool } = await spoolWith(t, 400);
  const { cloud, seen } = await openCloud(t);
  startConfirmed(t, spool, cloud.port, { inFlightMax: 4 });
  await until('the oldest has come three times', () => seen.filter(([first]) => first === 1).length >= 3);
  assert.deepEqual(new Set(seen.map(([first]) => first)), new Set([1, 11, 21, 31]));
  assert.equal(seen.filter(([first]) => first !== 1).length, 3);
});

for (const [name, limits] of Object.entries({
  rows: { unconfirmedRowsMax: 60 },
  bytes: { unconfirmedBytesMax: 1_000 },
}))
  test(`what is not confirmed is bounded in ${name}`, async (t) => {
    const { spool } = await spoolWith(t, 1_000);
    const { cloud, seen, say } = await openCloud(t);
    startConfirmed(t, spool, cloud.port, { inFlightMax: 4, ...limits });
    await until('the first window', () => new Set(seen.flat()).size === 40);
    await say(
      encodeAck({
        source: { gateway: 'line-1', epoch: spool.epoch } as Ack['source'],
        from: 1,
        through: 10,
        missing: [],
      }),
    );
    await until('more than the window', () => new Set(seen.flat()).size > 40);
    await until('the oldest again', () => seen.filter(([first]) => first === 11).length >= 2);
    assert.ok(new Set(seen.flat()).size < 200, `${new Set(seen.flat()).size} rows`);
  });

test('lies, old words and noise delete nothing, and are counted', async (t) => {
  const { spool, rows } = await spoolWith(t, 100);
  const { cloud, seen, say } = await openCloud(t);
  const source = { gateway: 'line-1', epoch: spool.epoch } as Ack['source'];
  const words = (over: object) => encodeAck({ source, from: 1, through: 100, missing: [], ...over });
  // Retained before the gateway comes, as MQTT 3.1.1 would deliver it.
  await say(words({}), true);
  const { upstream } = startConfirmed(t, spool, cloud.port, { protocolVersion: 4 });
  await until('the window is out', () => new Set(seen.flat()).size === 40);
  await say('');
  await say('{"v":1}');
  await say(Buffer.alloc(60_000, 7));
  await say(words({ source: { ...source, epoch: 'another' } }));
  await say(words({ source: { ...source, gateway: 'line-2' } }));
  await say(words({ through: 101 }));
  await say(words({ missing: [{ from: 1, to: 40 }] }));
  await until('all were heard', () => upstream.acks.believed === 1);
  assert.deepEqual(upstream.acks, { believed: 1, malformed: 3, foreign: 2, beyond: 1, older: 0, retained: 1 });
  assert.equal(await rows(), 100);
  await say(words({ through: 20 }));
  await until('what is true is believed', async () => {
    await spool.enqueue([]);
    return (await rows()) === 80;
  });
  await say(words({ through: 10 }));
  await until('an old one', () => upstream.acks.older === 1);
  assert.equal(await rows(), 80);
});

test('missing ranges go again at once, and nothing behind them is deleted before they are there', async (t) => {
  const { spool, rows } = await spoolWith(t, 100);
  const { cloud, seen, say } = await openCloud(t);
  const source = { gateway: 'line-1', epoch: spool.epoch } as Ack['source'];
  startConfirmed(t, spool, cloud.port, { inFlightMax: 100 });
  await until('all out', () => new Set(seen.flat()).size === 100);
  await say(encodeAck({ source, from: 1, through: 100, missing: [{ from: 33, to: 34 }] }));
  await until('again', () => seen.filter((seqs) => seqs.includes(33)).length === 2);
  assert.equal(await rows(), 70, 'rows 1 to 30 have gone');
  await say(encodeAck({ source, from: 1, through: 100, missing: [] }));
  await until('the rest', async () => {
    await spool.enqueue([]);
    return (await rows()) === 0;
  });
});

test('a broker that forgets its sessions: everything arrives once the ingest is back, in every format', async (t) => {
  for (const format of ['columns', 'rows-json', 'rows-msgpack'] as const) {
    const { spool, rows } = await spoolWith(t, 150);
    const first = await FaultBroker.open({ port: 0 });
    const { port } = first;
    const { replayer } = startConfirmed(t, spool, port, { format });
    await until('the broker has taken what it may', () => replayer.status(150).rowsSent >= 40);
    await first.close();
    const second = await FaultBroker.open({ port });
    const { ingest } = await openIngest(t, `mqtt://127.0.0.1:${port}`, {
      acks: { policy: 'always', topic: 'edge/{gateway}/ack' },
    });
    await until('all of it', async () => (await rows()) === 0);
    assert.deepEqual([ingest.status().stored, ingest.status().missing], [150, 0]);
    await ingest.close();
    await replayer.stop(0);
    await second.close();
  }
});

test('a row that the consumer cannot take, whatever batch it is in: it alone is set aside, the rest is confirmed', async (t) => {
  const { spool, rows } = await spoolWith(t, 60);
  const bad = 37;
  const held = new Set<number>();
  let say: (ack: Omit<Ack, 'source'>) => void = () => {};
  const cloud = await FaultBroker.open({
    port: 0,
    onPublish: ({ topic, payload }) => {
      if (topic === ACK_TOPIC) return;
      const { rows, lost, first, last } = decodeBatch(payload);
      const refused = rows.some(({ seq }) => seq === bad)
        ? { from: first, to: last, reason: 'it is poison' }
        : undefined;
      if (!refused) for (const { seq } of rows) held.add(seq);
      for (const { from, to } of lost) for (const seq of range(from, to)) held.add(seq);
      const through = Math.max(...held, 0);
      const missing = range(1, through)
        .filter((seq) => !held.has(seq))
        .map((seq) => ({ from: seq, to: seq }));
      say({ from: 1, through, missing, ...(refused && { refused }) });
    },
  });
  t.after(() => cloud.close());
  const client = await connectAsync(`mqtt://127.0.0.1:${cloud.port}`);
  t.after(() => client.endAsync(true));
  const source = { gateway: 'line-1', epoch: spool.epoch } as Ack['source'];
  say = (ack) => void client.publish(ACK_TOPIC, encodeAck({ ...ack, source }), { qos: 1 });
  startConfirmed(t, spool, cloud.port);
  await until('drained', async () => (await rows()) === 0, 30_000);
  assert.deepEqual(
    (await spool.dead(5)).map(({ seq, reason }) => [seq, /it is poison/.test(reason)]),
    [[bad, true]],
  );
  assert.deepEqual(
    [...held].sort((a, b) => a - b),
    range(1, 60),
    'and it is known to be given up',
  );
});

test('a consumer that can read none of it, as an older version: nothing is set aside, and the state says why', async (t) => {
  const { spool, rows } = await spoolWith(t, 30);
  let refuses = true;
  let say: (ack: Omit<Ack, 'source'>) => void = () => {};
  const cloud = await FaultBroker.open({
    port: 0,
    onPublish: ({ topic, payload }) => {
      if (topic === ACK_TOPIC) return;
      const { first, last } = decodeBatch(payload);
      const refused = { from: first, to: last, reason: 'it has format 2' };
      say(refuses ? { from: 1, through: 0, missing: [], refused } : { from: 1, through: last, missing: [] });
    },
  });
  t.after(() => cloud.close());
  const client = await connectAsync(`mqtt://127.0.0.1:${cloud.port}`);
  t.after(() => client.endAsync(true));
  const source = { gateway: 'line-1', epoch: spool.epoch } as Ack['source'];
  say = (ack) => void client.publish(ACK_TOPIC, encodeAck({ ...ack, source }), { qos: 1 });
  const { replayer } = startConfirmed(t, spool, cloud.port);
  await until('held', () => /no other row either.*it has format 2/.test(replayer.status(30).cause ?? ''), 20_000);
  assert.equal(replayer.status(30).state, 'held');
  const stats = await spool.stats();
  assert.deepEqual([stats.rows, stats.dead], [30, 0]);
  refuses = false;
  await until('the consumer was brought up to date', async () => {
    await spool.enqueue([]);
    return (await rows()) === 0;
  });
});

test('asked for what has left the spool, the gateway says that it will not come', async (t) => {
  const { spool, rows } = await spoolWith(t, 50);
  const { cloud, lost, say } = await openCloud(t);
  const source = { gateway: 'line-1', epoch: spool.epoch } as Ack['source'];
  startConfirmed(t, spool, cloud.port);
  await until('all confirmed', async () => {
    await say(encodeAck({ source, from: 1, through: 50, missing: [] }));
    await spool.enqueue([]);
    return (await rows()) === 0;
  });
  await spool.enqueue([reading(51)]);
  await say(
    encodeAck({
      source,
      from: 1,
      through: 50,
      missing: [
        { from: 11, to: 20 },
        { from: 40, to: 50 },
      ],
      ask: true,
    }),
  );
  await until('told', () => lost.length > 0);
  assert.deepEqual(mergeRanges(lost.map(({ from, to }) => ({ from, to }))), [
    { from: 11, to: 20 },
    { from: 40, to: 50 },
  ]);
  assert.ok(lost.every(({ reason }) => reason === 'released'));
  assert.equal(await rows(), 1);
});

test('a gateway that may not subscribe to the acknowledgements sends nothing, and says so', async (t) => {
  const { spool, rows } = await spoolWith(t, 10);
  const broker = await TinyBroker.open(t);
  broker.intercept = (packet, socket) => {
    if (packet.cmd !== 'subscribe') return false;
    const reply: Packet = { cmd: 'suback', messageId: packet.messageId!, granted: [0x87] };
    return socket.write(mqttPacket.generate(reply, { protocolVersion: 5 }));
  };
  const port = Number(new URL(broker.url).port);
  const { replayer } = startConfirmed(t, spool, port);
  const status = await until('held', () => {
    const now = replayer.status(10);
    return now.state === 'held' && now;
  });
  assert.match(status.cause ?? '', /does not let this gateway subscribe to edge\/line-1\/ack/);
  assert.equal(await rows(), 10);
});
