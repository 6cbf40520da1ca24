/** A plant that moves here must see the same answers: one script, run against Debian's Mosquitto and against our broker. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AccessFiles } from '../../src/broker/access-files.js';
import { changePassword } from '../../src/broker/password-file.js';
import { newHash } from '../../src/broker/password-hash.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { freePort } from '../../src/sim/free-port.js';
import { openPlant, RawClient } from '../helpers/broker.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const mosquittoPasswd = peer('mosquitto_passwd');
const skip = mosquitto && mosquittoPasswd ? false : 'mosquitto is not installed';

const ACL = `# comment
topic read public/#
topic write inbox/anonymous
topic read $SYS/broker/version

user root
topic readwrite #
topic readwrite $SYS/#

user alice
topic plant/+/state
topic read plant/#
topic deny plant/secret/#
topic write plant/secret/alice
topic read plant with blanks/#

user bob
topic write plant/#
topic read plant/line-1
user alice
topic readwrite late/section

pattern readwrite client/%c/#
pattern write user/%u
pattern read public/#
pattern deny client/+/never
topic read after/pattern
`;

const TOPICS = [
  'plant/line-1',
  'plant/line-1/state',
  'plant/line-1/state/x',
  'plant',
  'plant/secret',
  'plant/secret/alice',
  'plant with blanks/x',
  'late/section',
  'after/pattern',
  'public/board',
  'inbox/anonymous',
  'client/c1/value',
  'client/c1',
  'client/c1/never',
  'client/other/value',
  'user/alice',
  'user/bob',
  'user/',
  '/leading',
  'unknown',
  '$SYS/broker/connection/c1/state',
  '$SYS/broker/uptime',
];
const BARRIER = 'barrier';
const FILTERS = ['#', 'plant/#', '+/+', 'client/+/value', '$SYS/#', '$share/group/public/#'];

interface Persona {
  readonly username?: string;
  readonly password?: string;
  readonly clientId: string;
}
const USERS = { root: 'r', alice: 'pass:wörd ', bob: 'b', carol: 'c', 'we#ird': 'w' } as const;
const PERSONAS: Record<string, Persona> = {
  anonymous: { clientId: 'c1' },
  alice: { username: 'alice', password: USERS.alice, clientId: 'c1' },
  bob: { username: 'bob', password: USERS.bob, clientId: 'c2' },
  'carol without a section': { username: 'carol', password: USERS.carol, clientId: 'c1' },
  'a client id that is a wildcard': { username: 'carol', password: USERS.carol, clientId: '+' },
  'a user name that is a wildcard': { username: 'we#ird', password: USERS['we#ird'], clientId: 'c1' },
  'a wildcard with a section': { username: 'alice', password: USERS.alice, clientId: 'x/#' },
};
const ROOT: Persona = { username: 'root', password: USERS.root, clientId: 'root' };

interface Broker {
  readonly port: number;
  /** New rules take effect. */
  reload(acl: string): Promise<void>;
}

/** What one broker answers to everything. */
async function answers(t: TestContext, broker: Broker, version: 4 | 5): Promise<Record<string, unknown>> {
  const said: Record<string, unknown> = {};
  const { port } = broker;
  const enter = async (persona: Persona, more: object = {}) => {
    const client = await RawClient.open(t, port, version);
    const { clientId, username, password } = persona;
    const credentials = {
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
    };
    const fixed = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: version, clean: true, keepalive: 0 };
    client.send({ ...fixed, clientId, ...credentials, ...more });
    const { returnCode, reasonCode } = await client.next('connack');
    return { client, code: version === 5 ? reasonCode : returnCode };
  };

  const attempts: Record<string, Persona> = {
    'no credentials': { clientId: 'x' },
    'the right password': { clientId: 'x', username: 'alice', password: USERS.alice },
    'an old hash': { clientId: 'x', username: 'bob', password: USERS.bob },
    'the wrong password': { clientId: 'x', username: 'alice', password: 'no' },
    'a password cut short': { clientId: 'x', username: 'alice', password: USERS.alice.trim() },
    'no password': { clientId: 'x', username: 'alice' },
    'an empty password': { clientId: 'x', username: 'alice', password: '' },
    'an unknown user': { clientId: 'x', username: 'nobody', password: 'x' },
    'an empty user name': { clientId: 'x', username: '', password: 'x' },
  };
  for (const [name, persona] of Object.entries(attempts)) {
    const { client, code } = await enter(persona);
    said[`CONNECT with ${name}`] = code;
    client.socket.destroy();
    await client.gone();
  }

  const root = (await enter(ROOT)).client;
  /** Publishes all, and returns the codes of the acknowledgements. */
  const send = async (client: RawClient, topics: readonly string[], qos: number, retain = false): Promise<number[]> => {
    const codes: number[] = [];
    for (const [id, topic] of topics.entries())
      client.publish(topic, `to ${topic}`, qos, qos > 0 ? id + 1 : undefined, { retain });
    for (const _ of qos > 0 ? topics : []) {
      const { messageId, reasonCode = 0 } = await client.next(qos === 1 ? 'puback' : 'pubrec');
      // No matching subscribers is a success [MQTT5 3.4.2.1], and Mosquitto tells.
      codes[messageId - 1] = reasonCode === 0x10 ? 0 : reasonCode;
      if (qos === 1 || reasonCode >= 0x80) continue;
      client.send({ cmd: 'pubrel', messageId });
      await client.next('pubcomp');
    }
    // What another client publishes now comes after all of it.
    await client.ping();
    if (client !== root) await send(root, [BARRIER], 1);
    return codes;
  };
  const received = async (client: RawClient): Promise<string[]> => {
    await client.ping();
    const topics = client.packets.splice(0).filter(({ cmd }) => cmd === 'publish') as unknown as { topic: string }[];
    // Of the broker's own topics only one is known to exist on both.
    const names = topics.map(({ topic }) => topic).filter((topic) => topic !== BARRIER);
    return names.filter((topic) => !/^\$SYS\/(?!broker\/(version|connection))/.test(topic)).sort();
  };

  const watch = async (clientId: string): Promise<RawClient> => {
    const { client } = await enter({ ...ROOT, clientId });
    const subscriptions = ['#', '$SYS/broker/connection/#'].map((topic) => ({ topic, qos: 0 }));
    client.send({ cmd: 'subscribe', messageId: 1, subscriptions });
    await client.next('suback');
    return client;
  };

  const witness = await watch('witness');
  for (const [name, persona] of Object.entries(PERSONAS)) {
    const { client } = await enter(persona);
    for (const qos of [0, 1, 2]) {
      const codes = await send(client, TOPICS, qos);
      said[`${name} publishes at QoS ${qos}`] = { codes, delivered: await received(witness) };
    }
    client.socket.destroy();
    await client.gone();
  }

  for (const [name, persona] of Object.entries(PERSONAS))
    for (const filter of FILTERS) {
      const { client } = await enter(persona);
      client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: filter, qos: 1 }] });
      const { granted } = await client.next('suback');
      const retained = await received(client);
      await send(root, TOPICS, 1);
      said[`${name} subscribes to ${filter}`] = { granted, retained, live: await received(client) };
      client.socket.destroy();
      await client.gone();
    }

  for (const topic of ['plant/line-1/state', 'plant/line-1', 'client/c1/will', 'client/c2/will']) {
    const will = { topic, payload: Buffer.from('gone'), qos: 1, retain: false };
    const { client, code } = await enter(PERSONAS.alice as Persona, { will });
    client.socket.destroy();
    await client.gone();
    // Wills are published at once, so what comes after them shows whether there was one.
    await send(root, [BARRIER], 1);
    said[`alice leaves the will ${topic}`] = { code, delivered: await received(witness) };
  }

  const alice = (await enter(PERSONAS.alice as Persona)).client;
  await send(alice, ['plant/a/state', 'late/section'], 1, true);
  const reader = async () => {
    const client = await watch('reader');
    const topics = await received(client);
    client.socket.destroy();
    await client.gone();
    return topics;
  };
  said['retained before the right ends'] = await reader();
  await broker.reload(ACL.replace('topic plant/+/state\n', ''));
  said['retained after the right has ended'] = await reader();
  said['published after the right has ended'] = await send(alice, ['plant/a/state'], 1);
  await broker.reload(ACL);
  said['published when the right is back'] = await send(alice, ['plant/a/state'], 1);
  return said;
}

async function files(t: TestContext): Promise<{ passwords: string; acl: string }> {
  const dir = tempDir(t);
  chmodSync(dir, 0o755);
  const passwords = join(dir, 'passwd');
  const acl = join(dir, 'acl');
  writeFileSync(passwords, '');
  for (const [user, password] of Object.entries(USERS)) {
    const kind = user === 'bob' ? 'sha512' : 'sha512-pbkdf2';
    if (user === 'carol') {
      // What our own command writes, Mosquitto reads.
      await changePassword(passwords, user, await newHash(password, 1000));
      continue;
    }
    execFileSync(mosquittoPasswd as string, ['-H', kind, '-b', passwords, user, password]);
  }
  appendFileSync(passwords, '# a comment, and a line without anything\n\n');
  chmodSync(passwords, 0o644);
  writeFileSync(acl, ACL);
  return { passwords, acl };
}

async function openTheirs(t: TestContext): Promise<Broker> {
  const { passwords, acl } = await files(t);
  const port = await freePort();
  const config = join(tempDir(t), 'mosquitto.conf');
  // 2.0.11 does not do by itself what its manual says of check_retain_source.
  const lines = [`listener ${port} 127.0.0.1`, 'allow_anonymous true', 'user root', 'check_retain_source true'];
  writeFileSync(config, [...lines, `password_file ${passwords}`, `acl_file ${acl}`, ''].join('\n'));
  const child = spawn(mosquitto as string, ['-c', config, '-v'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  t.after(async () => {
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  });
  await until('mosquitto to listen', () => {
    if (child.exitCode !== null) throw new Error(`mosquitto ended: ${log}`);
    return / running$/m.test(log);
  });
  return {
    port,
    reload: async (text) => {
      writeFileSync(acl, text);
      log = '';
      child.kill('SIGHUP');
      await until('mosquitto to reload', () => log.includes('Reloading config.'));
    },
  };
}

async function openOurs(t: TestContext): Promise<Broker> {
  const { passwords: passwordFile, acl: aclFile } = await files(t);
  const access = await AccessFiles.open({ passwordFile, aclFile, clock: systemClock, log: silentLog });
  const plant = await openPlant(t, { access });
  return {
    port: plant.port,
    reload: async (text) => {
      writeFileSync(aclFile, text);
      await plant.broker.reload();
    },
  };
}

for (const version of [4, 5] as const)
  test(`users, rights and patterns have the same answers as Mosquitto's, version ${version}`, { skip }, async (t) => {
    const [theirs, ours] = await Promise.all([openTheirs(t), openOurs(t)]);
    const [expected, actual] = await Promise.all([answers(t, theirs, version), answers(t, ours, version)]);
    assert.ok(Object.keys(expected).length > 75);
    assert.deepEqual(Object.keys(actual), Object.keys(expected));
    const different = Object.keys(expected)
      .filter((question) => JSON.stringify(actual[question]) !== JSON.stringify(expected[question]))
      .map((question) => ({ question, mosquitto: expected[question], holdfast: actual[question] }));
    assert.deepEqual(different, []);
  });
