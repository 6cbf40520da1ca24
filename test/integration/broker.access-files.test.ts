import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AccessFiles } from '../../src/broker/access-files.js';
import { newHash } from '../../src/broker/password-hash.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { openPlant, type Plant, RawClient } from '../helpers/broker.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const ACL = `user alice
topic readwrite plant/#
user bob
topic readwrite plant/#
user root
topic readwrite #
`;

interface Guarded extends Plant {
  setUsers(users: Record<string, string>): Promise<void>;
  setPasswords(text: string): void;
  setAcl(text: string): void;
  readonly access: AccessFiles;
}

/** A broker that knows alice, bob and root, each with their name as password. */
async function openGuarded(t: TestContext, anonymous = false, refuseDeniedFilters = false): Promise<Guarded> {
  const dir = tempDir(t);
  const [passwordFile, aclFile] = [join(dir, 'passwd'), join(dir, 'acl')];
  const hashes = new Map<string, string>();
  const setPasswords = (text: string) => writeFileSync(passwordFile, text);
  const setUsers = async (users: Record<string, string>) => {
    let text = '';
    for (const [user, password] of Object.entries(users)) {
      const line = hashes.get(user + password) ?? `${user}:${await newHash(password, 10)}\n`;
      hashes.set(user + password, line);
      text += line;
    }
    setPasswords(text);
  };
  await setUsers({ alice: 'alice', bob: 'bob', root: 'root' });
  writeFileSync(aclFile, ACL);
  const files = { passwordFile, aclFile, refuseDeniedFilters };
  const access = await AccessFiles.open({ ...files, clock: systemClock, log: silentLog });
  const plant = await openPlant(t, { access, listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous }] });
  return Object.assign(plant, {
    setUsers,
    setPasswords,
    setAcl: (text: string) => writeFileSync(aclFile, text),
    access,
  });
}

interface As {
  readonly user?: string;
  readonly password?: string;
  readonly version?: number;
}

/** The client, and the code of its CONNACK. */
async function enter(t: TestContext, { port }: Plant, clientId: string, as: As, more: object = {}) {
  const { user, password = user, version = 5 } = as;
  const raw = await RawClient.open(t, port, version);
  const fixed = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: version, clean: true, keepalive: 0, clientId };
  raw.send({ ...fixed, ...(user === undefined ? {} : { username: user, password }), ...more });
  const { returnCode, reasonCode, sessionPresent } = await raw.next('connack');
  return { raw, code: version === 5 ? reasonCode : returnCode, present: sessionPresent };
}

async function subscribe(raw: RawClient, topic: string, qos = 1): Promise<void> {
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos }] });
  await raw.next('suback');
}

async function publish(raw: RawClient, topic: string, payload: string, more: object = {}): Promise<number> {
  raw.publish(topic, payload, 1, 1, more);
  return (await raw.next('puback')).reasonCode ?? 0;
}

async function payloads(raw: RawClient): Promise<string[]> {
  await raw.ping();
  return raw.packets
    .splice(0)
    .filter(({ cmd }) => cmd === 'publish')
    .map((packet) => String((packet as { payload?: Buffer }).payload));
}

const KEPT = { clean: false, properties: { sessionExpiryInterval: 1000 } };

test('who gives no right password stays outside, and is counted', async (t) => {
  const plant = await openGuarded(t);
  assert.equal((await enter(t, plant, 'c', { user: 'alice' })).code, 0);
  assert.equal((await enter(t, plant, 'c', { user: 'alice', password: 'x' })).code, 0x87);
  assert.equal((await enter(t, plant, 'c', { user: 'alice', password: 'x', version: 4 })).code, 5);
  assert.equal((await enter(t, plant, 'c', { user: 'nobody' })).code, 0x87);
  assert.equal((await enter(t, plant, 'c', {})).code, 0x87);
  assert.equal(plant.broker.status().failedLogins, 4);
  assert.equal((await enter(t, plant, 'c', { user: 'alice' })).code, 0);
});

test('a session belongs to its user: nobody else takes it over, ends it or reads its queue', async (t) => {
  const plant = await openGuarded(t, true);
  const first = (await enter(t, plant, 'hmi', { user: 'alice' }, KEPT)).raw;
  await subscribe(first, 'plant/#');
  const others: As[] = [{ user: 'bob' }, { user: 'root' }, {}];
  for (const other of others) assert.equal((await enter(t, plant, 'hmi', other)).code, 0x85);
  await first.ping();
  first.socket.destroy();
  await until('alice to be away', () => plant.broker.status().clients === 0);

  const writer = (await enter(t, plant, 'w', { user: 'bob' })).raw;
  assert.equal(await publish(writer, 'plant/a', 'for alice'), 0);
  for (const more of [{}, KEPT])
    for (const other of others) assert.equal((await enter(t, plant, 'hmi', other, more)).code, 0x85);
  await plant.restart({ access: plant.access });
  for (const other of others) assert.equal((await enter(t, plant, 'hmi', { ...other, version: 4 })).code, 2);
  const back = await enter(t, plant, 'hmi', { user: 'alice' }, KEPT);
  assert.deepEqual([back.code, back.present], [0, true]);
  assert.equal(String((await back.raw.next('publish')).payload), 'for alice');
});

test('what a session may no longer read is not delivered to it, from its queue neither', async (t) => {
  const plant = await openGuarded(t);
  const reader = (await enter(t, plant, 'hmi', { user: 'alice' }, KEPT)).raw;
  await subscribe(reader, '#', 1);
  const writer = (await enter(t, plant, 'w', { user: 'root' })).raw;
  await publish(writer, 'elsewhere', 'never hers');
  await publish(writer, 'plant/a', 'live');
  assert.deepEqual(await payloads(reader), ['live']);
  reader.send({ cmd: 'disconnect', reasonCode: 0 });
  await reader.gone();
  for (const topic of ['plant/a', 'plant/b', 'elsewhere']) await publish(writer, topic, `queued ${topic}`);
  assert.equal(plant.broker.status().queuedRows, 3);

  plant.setAcl(`${ACL}user alice\ntopic deny plant/a\n`);
  await plant.broker.reload();
  const back = await enter(t, plant, 'hmi', { user: 'alice' }, KEPT);
  assert.equal(back.present, true);
  await publish(writer, 'plant/a', 'live again');
  assert.equal(String((await back.raw.next('publish')).payload), 'queued plant/b');
  assert.deepEqual(await payloads(back.raw), []);
  back.raw.send({ cmd: 'disconnect', reasonCode: 0 });
  await back.raw.gone();
  assert.equal(plant.broker.status().queuedRows, 1);
});

test('a filter that is refused, where that is configured, leaves nothing behind', async (t) => {
  for (const version of [4, 5]) {
    const plant = await openGuarded(t, false, true);
    const more = version === 5 ? KEPT : { clean: false };
    const { raw } = await enter(t, plant, 'reader', { user: 'alice', version }, more);
    const topics = ['plant/#', 'secret/#', '$share/g/secret/x', '#'];
    raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: topics.map((topic) => ({ topic, qos: 1 })) });
    const denied = version === 5 ? 0x87 : 0x80;
    assert.deepEqual((await raw.next('suback')).granted, [1, denied, denied, 1]);
    raw.socket.destroy();
    await until('it to be away', () => plant.broker.status().clients === 0);
    const { raw: writer } = await enter(t, plant, 'writer', { user: 'root' });
    // The rules may change: what was refused then is no subscription now.
    plant.setAcl(`${ACL}user alice\ntopic readwrite #\n`);
    await plant.broker.reload();
    assert.equal(plant.broker.status().subscriptions, 2);
    await publish(writer, 'plant/a', 'open');
    const { raw: back } = await enter(t, plant, 'reader', { user: 'alice', version }, { ...more, clean: false });
    assert.deepEqual(await payloads(back), ['open']);
  }
});

test('without that every filter is granted, as by Mosquitto, and delivers what may be read', async (t) => {
  const plant = await openGuarded(t);
  const { raw } = await enter(t, plant, 'reader', { user: 'alice' });
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'secret/#', qos: 1 }] });
  assert.deepEqual((await raw.next('suback')).granted, [1]);
  const { raw: writer } = await enter(t, plant, 'writer', { user: 'root' });
  await publish(writer, 'secret/a', 'classified');
  assert.deepEqual(await payloads(raw), []);
});

test('a member of a shared group that may not read does not swallow the messages of the group', async (t) => {
  const plant = await openGuarded(t);
  plant.setAcl(`${ACL}user bob\ntopic deny plant/secret\n`);
  await plant.broker.reload();
  const [alice, bob] = [await enter(t, plant, 'a', { user: 'alice' }), await enter(t, plant, 'b', { user: 'bob' })];
  for (const { raw } of [alice, bob]) await subscribe(raw, '$share/g/plant/#', 0);
  const writer = (await enter(t, plant, 'w', { user: 'root' })).raw;
  for (let i = 0; i < 6; i++) await publish(writer, 'plant/secret', `s${i}`);
  assert.deepEqual(await payloads(alice.raw), ['s0', 's1', 's2', 's3', 's4', 's5']);
  assert.deepEqual(await payloads(bob.raw), []);
});

test('a retained value goes with the right of who published it, also after a restart', async (t) => {
  const plant = await openGuarded(t);
  const [alice, bob] = [await enter(t, plant, 'a', { user: 'alice' }), await enter(t, plant, 'b', { user: 'bob' })];
  await publish(alice.raw, 'plant/a', 'of alice', { retain: true });
  await publish(bob.raw, 'plant/b', 'of bob', { retain: true });
  plant.setAcl(ACL.replace('user alice\ntopic readwrite', 'user alice\ntopic read'));
  for (const step of ['reloaded', 'restarted']) {
    if (step === 'reloaded') await plant.broker.reload();
    else await plant.restart({ access: plant.access });
    const reader = (await enter(t, plant, 'r', { user: 'root' })).raw;
    await subscribe(reader, '#', 0);
    assert.deepEqual(await payloads(reader), ['of bob'], step);
  }
});

test('the will of a user is published by its right, also after the broker has crashed', async (t) => {
  const plant = await openGuarded(t);
  const will = { topic: 'plant/will', payload: Buffer.from('gone'), qos: 1, retain: true };
  await enter(t, plant, 'a', { user: 'alice' }, { will });
  // Nothing that the broker does now is kept, as if it had been killed.
  await plant.store.close();
  await plant.restart({ access: plant.access });
  const reader = (await enter(t, plant, 'r', { user: 'root' })).raw;
  await subscribe(reader, 'plant/will', 0);
  assert.equal(String((await reader.next('publish')).payload), 'gone');
});

test('a reload takes both files or none, and names every bad line', async (t) => {
  const plant = await openGuarded(t);
  const alice = (await enter(t, plant, 'a', { user: 'alice' })).raw;
  await plant.setUsers({ alice: 'new', carol: 'carol' });
  plant.setAcl('user alice\ntopic rw x\n\nfoo\n');
  await assert.rejects(plant.broker.reload(), (error: Error) => {
    assert.match(error.message, /acl:2: expected read, write.*\n.*acl:4: expected topic/);
    return true;
  });
  assert.equal(await publish(alice, 'plant/a', 'x'), 0);
  assert.equal((await enter(t, plant, 'b', { user: 'bob' })).code, 0);
  assert.equal((await enter(t, plant, 'b', { user: 'carol' })).code, 0x87);

  plant.setAcl(ACL);
  plant.setPasswords('alice\n');
  await assert.rejects(plant.broker.reload(), /passwd:1: expected user:hash/);
  assert.equal((await enter(t, plant, 'b', { user: 'bob' })).code, 0);
});

test('whose password has changed or is gone is disconnected at the reload, and nobody else', async (t) => {
  const plant = await openGuarded(t);
  const clients = await Promise.all(['alice', 'bob', 'root'].map((user) => enter(t, plant, user, { user })));
  const [alice, bob, root] = clients.map(({ raw }) => raw) as [RawClient, RawClient, RawClient];
  const v4 = (await enter(t, plant, 'v4', { user: 'alice', version: 4 })).raw;
  await plant.setUsers({ alice: 'new', root: 'root' });
  await plant.broker.reload();
  for (const gone of [alice, bob]) assert.equal((await gone.next('disconnect')).reasonCode, 0x98);
  for (const gone of [alice, bob, v4]) await gone.gone();
  await root.ping();
  assert.equal((await enter(t, plant, 'a', { user: 'alice' })).code, 0x87);
  assert.equal((await enter(t, plant, 'a', { user: 'alice', password: 'new' })).code, 0);
});

test('broker topics need a right as any other', async (t) => {
  const plant = await openGuarded(t);
  const [alice, root] = [await enter(t, plant, 'a', { user: 'alice' }), await enter(t, plant, 'r', { user: 'root' })];
  plant.setAcl(`${ACL}topic read $SYS/#\n`);
  await plant.broker.reload();
  for (const { raw } of [alice, root]) await subscribe(raw, '$SYS/broker/version', 0);
  assert.deepEqual([(await payloads(alice.raw)).length, (await payloads(root.raw)).length], [0, 1]);
});
