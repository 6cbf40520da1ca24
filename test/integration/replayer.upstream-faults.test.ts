import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer, connect as relayTo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { WanProxy } from '../../src/sim/wan.js';
import { message, openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { openCloud, range, startReplayer } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

async function spoolWith(t: TestContext, rows: number) {
  const opened = await openSpool(t, join(tempDir(t), 'spool.db'));
  if (rows > 0) await opened.spool.enqueue(range(1, rows).map((n) => reading(n)));
  return opened;
}

const drained = (spool: { stats(): Promise<{ rows: number }> }) =>
  until('the spool is empty', async () => (await spool.stats()).rows === 0);

test('a backlog and what comes later arrive once, in the order of seq', async (t) => {
  const { spool } = await spoolWith(t, 95);
  const { cloud, consumer } = await openCloud(t);
  const replayer = startReplayer(t, spool, cloud.port);
  await drained(spool);
  await spool.enqueue([message(96), message(97)]);
  await until('the live rows', () => consumer.seqs.length === 97);
  await drained(spool);
  assert.deepEqual(consumer.seqs, range(1, 97));
  const { received, acknowledged } = await spool.stats();
  assert.deepEqual([received, acknowledged], [97, 97]);
  assert.equal(replayer.status(0).state, 'online');
});

test('a lost PUBACK: the batch comes again on the next link, in order, and nothing is missing', async (t) => {
  const { spool } = await spoolWith(t, 100);
  const { cloud, consumer } = await openCloud(t, { faults: { swallowAcks: 1 } });
  const replayer = startReplayer(t, spool, cloud.port);
  await drained(spool);
  assert.deepEqual(consumer.distinct, range(1, 100));
  assert.ok(consumer.seqs.length > 100, 'the batch without an acknowledgement was sent again');
  assert.equal(consumer.seqs.filter((seq) => seq === 1).length, 2);
  assert.ok(replayer.status(0).connects >= 2);
});

test('acknowledgements in reverse order release only what is acknowledged without a hole', async (t) => {
  const { spool, store } = await spoolWith(t, 200);
  const { cloud, consumer } = await openCloud(t, { faults: { ackOrder: 'reverse', ackWindow: 4 } });
  startReplayer(t, spool, cloud.port);
  await until('the spool is empty, and never ahead of the cloud', async () => {
    await store.query('spool.about');
    const { head, rows } = await spool.stats();
    const arrived = new Set(consumer.seqs);
    assert.ok(
      range(1, head - 1).every((seq) => arrived.has(seq)),
      'a released row has arrived',
    );
    return rows === 0;
  });
  assert.deepEqual(consumer.seqs, range(1, 200));
});

test('the broker is absent at the start: everything goes once it is there', async (t) => {
  const { spool } = await spoolWith(t, 30);
  const { cloud, consumer } = await openCloud(t, { faults: { absent: true } });
  const replayer = startReplayer(t, spool, cloud.port);
  await until('it has noticed', () => replayer.status(30).state === 'backoff');
  assert.match(replayer.status(30).cause ?? '', /ECONNREFUSED/);
  await cloud.set({ absent: false });
  await drained(spool);
  assert.deepEqual(consumer.seqs, range(1, 30));
});

test('a refused CONNECT is shown with its reason, keeps everything, and is tried again', async (t) => {
  const { spool } = await spoolWith(t, 10);
  const { cloud, consumer } = await openCloud(t, { faults: { refuseConnect: 0x87 } });
  const replayer = startReplayer(t, spool, cloud.port);
  const status = await until('held', () => {
    const now = replayer.status(10);
    return now.state === 'held' && now;
  });
  assert.match(status.cause ?? '', /refused the connection: not authorised/);
  assert.equal((await spool.stats()).rows, 10);
  await cloud.set({ refuseConnect: null });
  await drained(spool);
  assert.deepEqual(consumer.seqs, range(1, 10));
});

for (const [name, script] of Object.entries({
  'a peer that accepts and says nothing': [],
  'an empty CONNACK': [0x20, 0x00],
  'a PUBLISH instead of CONNACK': [0x30, 0x03, 0, 1, 0x61],
  'a CONNACK of 256 MB': [0x20, 0xff, 0xff, 0xff, 0x7f],
  'a PUBLISH without a packet id after CONNACK': [0x20, 0x03, 0, 0, 0, 0x32, 0x05, 0, 3, 0x61, 0x62, 0x63],
})) {
  test(`${name}: the link is given up and the next one works`, async (t) => {
    const { spool } = await spoolWith(t, 10);
    const { cloud, consumer } = await openCloud(t);
    let bad = 2;
    const front = createServer((socket) => {
      socket.on('error', () => {});
      if (bad-- > 0) return socket.once('data', () => socket.write(Buffer.from(script)));
      const far = relayTo(cloud.port, '127.0.0.1').on('error', () => {});
      return socket.pipe(far).pipe(socket);
    });
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
    t.after(() => front.close());
    startReplayer(t, spool, (front.address() as { port: number }).port);
    await drained(spool);
    assert.deepEqual(consumer.distinct, range(1, 10));
    assert.ok(bad < 0);
  });
}

test('a black hole in the middle of a drain: nothing is lost, the rest follows after it', async (t) => {
  const { spool } = await spoolWith(t, 400);
  const { cloud, consumer } = await openCloud(t);
  const wan = await WanProxy.open({ to: { host: '127.0.0.1', port: cloud.port } });
  t.after(() => wan.close());
  const replayer = startReplayer(t, spool, wan.port);
  await until('it flows', () => consumer.seqs.length > 50);
  await wan.set({ cut: 'blackhole' });
  await until(
    'the silence is noticed',
    () => replayer.status(0).state === 'backoff' || replayer.status(0).connects > 1,
  );
  const kept = (await spool.stats()).rows;
  await spool.enqueue(range(401, 420).map((n) => reading(n)));
  assert.ok((await spool.stats()).rows >= kept, 'nothing leaves the spool while nobody acknowledges');
  await wan.set({ cut: null });
  await drained(spool);
  assert.deepEqual(
    [...consumer.distinct].sort((a, b) => a - b),
    range(1, 420),
  );
});

test('a reset in the middle of a packet', async (t) => {
  const { spool } = await spoolWith(t, 300);
  const { cloud, consumer } = await openCloud(t);
  const wan = await WanProxy.open({ to: { host: '127.0.0.1', port: cloud.port } });
  t.after(() => wan.close());
  for (const bytes of [40, 300, 900, 1_501]) wan.cutAfter('up', bytes);
  startReplayer(t, spool, wan.port);
  await until('some has arrived', () => consumer.seqs.length > 0);
  wan.cutAfter('up', 777);
  await drained(spool);
  assert.deepEqual(consumer.distinct, range(1, 300));
});

test('a slow cloud: never more in flight than it grants, and a spool that waits is no reason to reconnect', async (t) => {
  const { spool } = await spoolWith(t, 120);
  const { cloud, consumer } = await openCloud(t, { faults: { ackDelayMs: 30, receiveMaximum: 2 } });
  const replayer = startReplayer(t, spool, cloud.port, { inFlightMax: 16 });
  let most = 0;
  await until('drained', async () => {
    most = Math.max(most, replayer.status(0).batchesInFlight);
    return (await spool.stats()).rows === 0;
  });
  assert.equal(most, 2);
  assert.deepEqual(consumer.seqs, range(1, 120));
  assert.equal(replayer.status(0).connects, 1);
});

test('batches stay under the packet size of the cloud, and a message that cannot is set aside and accounted for', async (t) => {
  const { spool } = await spoolWith(t, 40);
  const noise = randomBytes(6_000);
  await spool.enqueue([message(41, noise), ...range(42, 60).map((n) => reading(n))]);
  const { cloud, consumer } = await openCloud(t, { faults: { maximumPacketSize: 2_000 } });
  startReplayer(t, spool, cloud.port, { batchRowsMax: 500 });
  await drained(spool);
  await until('all that fits', () => consumer.distinct.length === 59);
  assert.deepEqual(consumer.seqs, [...range(1, 40), ...range(42, 60)]);
  assert.ok(consumer.bytes.every((bytes) => bytes < 2_000));
  assert.deepEqual(
    consumer.batches.flatMap((batch) => batch.lost),
    [{ from: 41, to: 41, reason: 'too-large' }],
  );
  const { received, acknowledged, dead, rows } = await spool.stats();
  assert.deepEqual([received, acknowledged, dead, rows], [60, 59, 1, 0]);
  assert.deepEqual(
    (await spool.dead(10)).map(({ seq, reason }) => [seq, reason]),
    [[41, 'too-large']],
  );
});

for (const protocolVersion of [5, 4] as const)
  test(`MQTT ${protocolVersion}: a message larger than a batch travels alone if the cloud is known to take it`, async (t) => {
    const { spool } = await spoolWith(t, 10);
    await spool.enqueue([message(11, randomBytes(6_000)), reading(12)]);
    const { cloud, consumer } = await openCloud(t);
    startReplayer(t, spool, cloud.port, { batchBytesMax: 2_000, mqtt: { protocolVersion } });
    await drained(spool);
    await until('the last one', () => consumer.seqs.includes(12));
    // In 3.1.1 the cloud cannot say what it takes, and a message that it does not would end every link.
    const arrived = protocolVersion === 5 ? range(1, 12) : [...range(1, 10), 12];
    assert.deepEqual(consumer.seqs, arrived);
    assert.equal((await spool.stats()).dead, 12 - arrived.length);
    assert.equal(consumer.batches.length, 3);
  });

test('nobody is subscribed: the batch is kept, the reason is shown, and it goes once somebody is', async (t) => {
  const { spool } = await spoolWith(t, 20);
  const { cloud } = await openCloud(t);
  const replayer = startReplayer(t, spool, cloud.port, { mqtt: { onNoSubscribers: 'hold' } });
  const held = await until('held', () => {
    const status = replayer.status(20);
    return status.state === 'held' && status;
  });
  assert.match(held.cause ?? '', /nobody is subscribed/);
  assert.equal((await spool.stats()).rows, 20);
  const { connectAsync } = await import('mqtt');
  const subscriber = await connectAsync(`mqtt://127.0.0.1:${cloud.port}`, { protocolVersion: 5, reconnectPeriod: 0 });
  t.after(() => subscriber.endAsync(true));
  await subscriber.subscribeAsync('edge/+/batch', { qos: 1 });
  await drained(spool);
  await until('online', () => replayer.status(0).state === 'online');
});

test('a PUBACK that refuses keeps everything', async (t) => {
  const { spool } = await spoolWith(t, 20);
  const { cloud, consumer } = await openCloud(t, { faults: { ackCode: { code: 0x97, count: 3 } } });
  startReplayer(t, spool, cloud.port);
  await drained(spool);
  assert.deepEqual(
    [...consumer.distinct].sort((a, b) => a - b),
    range(1, 20),
  );
});

test('MQTT 3.1.1 on request', async (t) => {
  const { spool } = await spoolWith(t, 25);
  const { cloud, consumer } = await openCloud(t);
  startReplayer(t, spool, cloud.port, { mqtt: { protocolVersion: 4 } });
  await drained(spool);
  assert.deepEqual(consumer.seqs, range(1, 25));
});

test('connections cut at random: nothing is missing, and each row is sent again at most once per cut', async (t) => {
  const { spool } = await spoolWith(t, 2_000);
  const { cloud, consumer } = await openCloud(t, { faults: { ackOrder: 'random', ackWindow: 3 } });
  const replayer = startReplayer(t, spool, cloud.port);
  let cuts = 0;
  for (let mark = 150; mark < 1_800; mark += 150) {
    await until('progress', () => consumer.distinct.length >= mark);
    cloud.reset();
    cuts++;
  }
  await drained(spool);
  assert.deepEqual(consumer.distinct, range(1, 2_000), 'first arrivals are in the order of seq');
  assert.ok(consumer.seqs.length - 2_000 <= cuts * 4 * 10, 'a cut costs at most one window');
  assert.equal(replayer.status(0).connects, cuts + 1);
});

test('stop sends what is left without waiting for a full batch', async (t) => {
  const { spool } = await spoolWith(t, 0);
  const { cloud, consumer } = await openCloud(t);
  const replayer = startReplayer(t, spool, cloud.port, { lingerMs: 60_000 });
  await until('online', () => replayer.status(0).state === 'online');
  await spool.enqueue([message(1), message(2)]);
  await replayer.stop(5_000);
  assert.deepEqual(consumer.seqs, [1, 2]);
});

test('stop against a cloud that answers nothing ends within its budget and keeps the rows', async (t) => {
  const { spool } = await spoolWith(t, 20);
  const { cloud } = await openCloud(t, { faults: { swallowAcks: 'all' } });
  const replayer = startReplayer(t, spool, cloud.port, { ackTimeoutMs: 60_000 });
  await until('in flight', () => replayer.status(0).batchesInFlight > 0);
  await replayer.stop(50);
  assert.equal((await spool.stats()).rows, 20);
  assert.equal(replayer.status(20).state, 'stopped');
});
