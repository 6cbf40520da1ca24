import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect, connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { freePort } from '../../src/sim/free-port.js';
import { openMosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const passwd = peer('mosquitto_passwd');
const skip = mosquitto && passwd ? false : 'mosquitto is not installed';
/** Started by root it becomes a user who may not enter the test's folder. */
const ROOT = process.getuid?.() === 0 ? ['user root'] : [];
/** Beyond the 1000 that Mosquitto keeps by default. */
const BATCHES = 1500;

/** The broker of the shipped configuration, with a port and a folder of this test. */
class ShippedBroker {
  readonly url: string;
  private readonly config: string;
  private running: ChildProcess | undefined;

  private constructor(t: TestContext, port: number) {
    this.url = `mqtt://127.0.0.1:${port}`;
    // Before the folder's own end, which would otherwise take it from under a running broker.
    t.after(() => this.end());
    const folder = tempDir(t);
    mkdirSync(join(folder, 'data'));
    const text = readFileSync('mosquitto/mosquitto.conf', 'utf8')
      .replace('listener 1884 ', `listener ${port} `)
      .replace('persistence_location data/', `persistence_location ${folder}/data/`);
    assert.ok(text.includes(`${port} `) && text.includes(`${folder}/`));
    this.config = join(folder, 'mosquitto.conf');
    writeFileSync(this.config, [text, ...ROOT, ''].join('\n'));
  }

  static async open(t: TestContext): Promise<ShippedBroker> {
    const broker = new ShippedBroker(t, await freePort());
    await broker.start();
    return broker;
  }

  async start(): Promise<void> {
    const running = spawn(mosquitto as string, ['-c', this.config], { stdio: 'ignore' });
    this.running = running;
    await until('mosquitto to take a client', async () => {
      if (running.exitCode !== null) throw new Error(`mosquitto ended with ${running.exitCode}`);
      const probe = await connectAsync(this.url, { reconnectPeriod: 0 }).catch(() => undefined);
      await probe?.endAsync();
      return probe;
    });
  }

  /** In order, as a service manager ends it. */
  async end(): Promise<void> {
    const { running } = this;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const exit = once(running, 'exit');
    running.kill('SIGTERM');
    await exit;
  }
}

async function client(t: TestContext, url: string, options: IClientOptions): Promise<MqttClient> {
  const opened = await connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0, ...options });
  t.after(() => opened.endAsync(true));
  return opened;
}

const INGEST: IClientOptions = {
  clientId: 'ingest',
  clean: false,
  properties: { sessionExpiryInterval: 3600, receiveMaximum: 100 },
};

test('batches for an absent ingest are all kept, across a restart of the broker', { skip }, async (t) => {
  const broker = await ShippedBroker.open(t);
  const { url } = broker;
  const ingest = await client(t, url, INGEST);
  await ingest.subscribeAsync('edge/+/batch', { qos: 1 });
  await ingest.endAsync();

  const gateway = await client(t, url, { clientId: 'gateway' });
  await Promise.all(
    Array.from({ length: BATCHES }, (_, i) => gateway.publishAsync('edge/line-1/batch', `${i}`, { qos: 1 })),
  );
  await gateway.endAsync();
  await broker.end();
  await broker.start();

  const arrived = new Set<string>();
  // Listens before it connects: the broker sends what it kept at once.
  const back = connect(url, { protocolVersion: 5, ...INGEST });
  t.after(() => back.endAsync(true));
  back.on('message', (_, payload) => arrived.add(`${payload}`));
  await until('all batches', () => arrived.size === BATCHES);
});

test('a gateway writes its own batches and reads its own answers only, the ingest reads all batches and answers', {
  skip,
}, async (t) => {
  const users = join(tempDir(t), 'passwd');
  writeFileSync(users, '');
  for (const user of ['ingest-1', 'line-1', 'line-2'])
    execFileSync(passwd as string, ['-b', users, user, `secret of ${user}`], { stdio: 'ignore' });
  const lines = [`password_file ${users}`, 'acl_file mosquitto/acl', 'allow_anonymous false', ...ROOT];
  const url = await openMosquitto(t, mosquitto as string, lines);
  const as = (username: string) => client(t, url, { username, password: `secret of ${username}` });

  const seen: string[] = [];
  const read = async (reader: MqttClient, name: string) => {
    reader.on('message', (topic, payload) => seen.push(`${name} ${topic} ${payload}`));
    await reader.subscribeAsync('#', { qos: 1 });
  };
  const [ingest, one, two] = await Promise.all([as('ingest-1'), as('line-1'), as('line-2')]);
  await read(ingest, 'ingest');
  await read(two, 'line-2');

  await assert.rejects(one.publishAsync('edge/line-2/batch', 'false', { qos: 1 }), /Not authorized/);
  await assert.rejects(one.publishAsync('edge/line-1/other', 'false', { qos: 1 }), /Not authorized/);
  await assert.rejects(ingest.publishAsync('edge/line-1/batch', 'false', { qos: 1 }), /Not authorized/);
  await assert.rejects(one.publishAsync('edge/line-2/ack', 'false', { qos: 1 }), /Not authorized/);
  await one.publishAsync('edge/line-1/batch', 'true', { qos: 1 });
  await two.publishAsync('edge/line-2/batch', 'true', { qos: 1 });
  await until('both batches', () => seen.length >= 2);
  await ingest.publishAsync('edge/line-1/ack', 'for line-1', { qos: 1 });
  await ingest.publishAsync('edge/line-2/ack', 'for line-2', { qos: 1 });
  await until('the answer', () => seen.length >= 3);
  // What else line-2 was allowed to see would have come before the answer to it.
  assert.deepEqual(seen.sort(), [
    'ingest edge/line-1/batch true',
    'ingest edge/line-2/batch true',
    'line-2 edge/line-2/ack for line-2',
  ]);
});
