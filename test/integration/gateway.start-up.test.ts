/** What a gateway meets when it starts: a cloud or a PLC that is not there, a wrong config, and things that are taken. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import type { CloudFaults } from '../../src/sim/cloud/faults.js';
import { freePort } from '../../src/sim/free-port.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { gatewayConfig, ingestConfig, lineReader, openGateway } from '../helpers/chain.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { Witness } from '../helpers/witness.js';

/** A promise of `count` messages and not one more is outstanding. */
async function publish(t: Parameters<typeof tempDir>[0], gateway: Program, count: number): Promise<Publisher> {
  const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
  const publisher = new Publisher(t, () => port, { clientId: 'p', version: 5, qos: 1, window: 10 });
  await until('promises', () => publisher.promised.size >= count);
  await publisher.finish();
  return publisher;
}

const ABSENCES: readonly [name: string, faults: Partial<CloudFaults>, healed: Partial<CloudFaults>, state: RegExp][] = [
  ['absent', { absent: true }, { absent: false }, /^(connecting|backoff)$/],
  ['refusing the connection', { refuseConnect: 0x87 }, { refuseConnect: null }, /^held$/],
  ['silent', { blackHole: true }, { blackHole: false }, /^(connecting|backoff)$/],
];

for (const [name, faults, healed, state] of ABSENCES)
  test(`the cloud is ${name} at the start: publishers are served, and it drains when that is over`, async (t) => {
    const witness = new Witness();
    const cloud = await FaultBroker.open({ port: 0, onPublish: witness.take, faults });
    t.after(() => cloud.close());
    const upstream = { connectTimeout: '300ms', onNoSubscribers: 'accept' };
    const gateway = await openGateway(t, { dir: tempDir(t), cloud: cloud.port, upstream });
    const publisher = await publish(t, gateway, 100);
    const count = publisher.promised.size;
    const before = await until('the reason to be shown', async () => {
      const status = await gateway.status();
      return status.upstream.cause !== null && status;
    });
    assert.deepEqual([before.state, before.spool.rows, witness.atCloud.size], ['degraded', count, 0]);
    assert.match(before.upstream.state, state);
    assert.match(before.causes.join('\n'), /upstream/);

    await cloud.set(healed);
    await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0);
    const copies = witness.copies();
    assert.deepEqual(
      [...publisher.promised].filter((n) => !copies.has(publisher.payload(n))),
      [],
    );
    await until('all to be well', async () => (await gateway.status()).state === 'ok');
    assert.equal((await gateway.end()).code, 0, gateway.stderr);
  });

test('a PLC that is absent at the start is read as soon as it comes', async (t) => {
  const port = await freePort();
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const readers = [lineReader(port)];
  const gateway = await openGateway(t, { dir: tempDir(t), cloud: cloud.port, readers });
  const offline = await until('the devices to be known to be offline', async () => {
    const status = await gateway.status();
    return status.readers.every((reader: { state: string }) => reader.state === 'offline') && status;
  });
  assert.equal(offline.state, 'degraded');
  const plc = await SimulatedPlc.open({ port });
  t.after(() => plc.close());
  await until('every device to be read', async () => {
    const { readers } = await gateway.status();
    return readers.every(
      (reader: { state: string; readings: number }) => reader.state === 'online' && reader.readings > 0,
    );
  });
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
});

test('a wrong config ends the start before anything is touched: exit 78, the files as they were', async (t) => {
  const dir = tempDir(t);
  const config = gatewayConfig({ dir, cloud: await freePort() });
  const gateway = await Program.open(t, 'gateway', '--config', config);
  await publish(t, gateway, 50);
  await gateway.kill();
  const before = fingerprints(dir);
  assert.ok(before.length >= 2, 'a spool and its log are there');

  for (const wrong of [
    (text: string) => text.replace('"linger"', '"lingre"'),
    (text: string) => text.replace('"20ms"', '"20"'),
    (text: string) => text.slice(0, -20),
  ]) {
    const path = join(tempDir(t), 'wrong.yaml');
    writeFileSync(path, wrong(readFileSync(config, 'utf8').replace('./data', join(dir, 'data'))), { mode: 0o600 });
    const refused = new Program(t, ['gateway', '--config', path]);
    assert.equal((await refused.endsByItself()).code, 78, refused.stderr);
    assert.match(refused.stderr, /wrong\.yaml:\d+:\d+/);
    assert.deepEqual(fingerprints(dir), before);
  }
});

test('a second gateway on the same folder is refused, and the first one goes on', async (t) => {
  const dir = tempDir(t);
  const config = gatewayConfig({ dir, cloud: await freePort() });
  const first = await Program.open(t, 'gateway', '--config', config);
  await publish(t, first, 50);
  const second = new Program(t, ['gateway', '--config', config]);
  assert.equal((await second.endsByItself()).code, 69, second.stderr);
  assert.match(second.stderr, /spool\.db is in use by another process\n {2}hint: /);
  const { spool } = await first.status();
  const { promised } = await publish(t, first, 50);
  assert.equal((await first.status()).spool.rows, spool.rows + promised.size);
  assert.equal((await first.end()).code, 0, first.stderr);
});

test('a port that is taken ends the start with a hint, and what is spooled stays', async (t) => {
  const dir = tempDir(t);
  const cloud = await freePort();
  const gateway = await openGateway(t, { dir, cloud });
  const { promised } = await publish(t, gateway, 50);
  const taken = await openGateway(t, { dir: tempDir(t), cloud });
  const port = Number(new URL((await taken.ready()).mqtt[0]!).port);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);

  const refused = new Program(t, ['gateway', '--config', gatewayConfig({ dir, cloud, mqtt: port })]);
  assert.equal((await refused.endsByItself()).code, 69, refused.stderr);
  assert.match(refused.stderr, new RegExp(`Cannot listen on mqtt://127.0.0.1:${port}.*\\n {2}hint: another broker`));
  const again = await openGateway(t, { dir, cloud });
  assert.equal((await again.status()).spool.rows, promised.size);
});

test('a status page whose port is taken ends the start of either side', async (t) => {
  const dir = tempDir(t);
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const cloud = await freePort();
  for (const [command, config] of [
    ['gateway', gatewayConfig({ dir, cloud })],
    ['ingest', ingestConfig(dir, cloud)],
  ] as const) {
    writeFileSync(
      config,
      readFileSync(config, 'utf8').replace('"listen": "127.0.0.1:0"', `"listen": "127.0.0.1:${port}"`),
    );
    const refused = await new Program(t, [command, '--config', config]).endsByItself();
    assert.deepEqual(refused, { code: 69, signal: null }, command);
  }
});

function fingerprints(dir: string): string[] {
  const data = join(dir, 'data');
  return readdirSync(data).map(
    (name) =>
      `${name} ${createHash('sha256')
        .update(readFileSync(join(data, name)))
        .digest('hex')}`,
  );
}
