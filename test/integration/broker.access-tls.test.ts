import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { connectAsync } from 'mqtt';
import mqtt, { type Packet } from 'mqtt-packet';
import { AccessFiles } from '../../src/broker/access-files.js';
import { subjectAsRfc2253 } from '../../src/broker/certificate-name.js';
import { DEFAULT_LIMITS } from '../../src/broker/limits.js';
import { listen } from '../../src/broker/listeners.js';
import type { TlsOptions } from '../../src/broker/tls-files.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { openPlant, type Plant } from '../helpers/broker.js';
import { Authority, type Certificate } from '../helpers/certificates.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const openssl = peer('openssl');
const skip = openssl ? false : 'openssl is not installed';

function authority(t: TestContext, name?: string): Authority {
  return new Authority(openssl as string, tempDir(t), name);
}

async function openSecure(t: TestContext, tls: TlsOptions, more: object = {}): Promise<Plant> {
  return openPlant(t, { listeners: [{ url: 'mqtts://127.0.0.1:0', anonymous: true, tls }], ...more });
}

function clientOptions(plants: Authority, own?: Certificate): ConnectionOptions {
  const files = own ? { cert: readFileSync(own.cert), key: readFileSync(own.key) } : {};
  return { host: '127.0.0.1', ca: readFileSync(plants.ca), ...files };
}

/** The return code of CONNACK, or why there was none; and the socket. */
async function enter(t: TestContext, port: number, options: ConnectionOptions, connect: object = {}) {
  const { onSession, ...tls } = options as ConnectionOptions & { onSession?: (session: Buffer) => void };
  const socket = connectTls({ port, ...tls });
  if (onSession) socket.on('session', onSession);
  t.after(() => socket.destroy());
  const parser = mqtt.parser({ protocolVersion: 4 });
  const answer = new Promise<number | string>((resolve) => {
    parser.on('packet', (packet) => resolve((packet as { returnCode: number }).returnCode));
    socket.on('error', (error) => resolve(error.message));
    socket.on('close', () => resolve('closed'));
  });
  socket.on('data', (chunk) => parser.parse(chunk));
  const fixed = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 0, clientId: 'c' };
  socket.on('secureConnect', () => socket.write(mqtt.generate({ ...fixed, ...connect } as Packet)));
  return { answer: await answer, socket };
}

/** The serial number of the certificate that a new connection is shown. */
async function shown(t: TestContext, { port }: Plant, plants: Authority): Promise<string> {
  const { answer, socket } = await enter(t, port, clientOptions(plants));
  assert.equal(answer, 0);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

async function alive(socket: TLSSocket): Promise<void> {
  const answered = once(socket, 'data');
  socket.write(Buffer.from([0xc0, 0]));
  await answered;
}

test('clients come in by TLS, over TCP and WebSocket, from version 1.2 on', { skip }, async (t) => {
  const plants = authority(t);
  const tls = plants.issue('server', '/CN=plant');
  const listeners = ['mqtts', 'wss'].map((scheme) => ({ url: `${scheme}://127.0.0.1:0`, anonymous: true, tls }));
  const { broker } = await openPlant(t, { listeners });
  for (const url of broker.addresses) {
    const client = await connectAsync(url, { ca: readFileSync(plants.ca), reconnectPeriod: 0 });
    await client.publishAsync('a', 'b', { qos: 1 });
    await client.endAsync();
  }
  const port = Number(new URL(broker.addresses[0] as string).port);
  const answers: Record<string, unknown> = {};
  for (const version of ['TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const) {
    const only = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' };
    answers[version] = (await enter(t, port, { ...clientOptions(plants), ...only })).answer;
  }
  assert.match(String(answers['TLSv1.1']), /alert protocol version|unsupported protocol|no protocols/);
  assert.deepEqual([answers['TLSv1.2'], answers['TLSv1.3']], [0, 0]);
});

test('a listener may ask for version 1.3', { skip }, async (t) => {
  const plants = authority(t);
  const { port } = await openSecure(t, { ...plants.issue('server', '/CN=plant'), minVersion: 'TLSv1.3' });
  const old = await enter(t, port, { ...clientOptions(plants), maxVersion: 'TLSv1.2' });
  assert.match(String(old.answer), /alert protocol version/);
  assert.equal((await enter(t, port, clientOptions(plants))).answer, 0);
});

test('the certificate is the user, and its rights are those of the ACL file', { skip }, async (t) => {
  const plants = authority(t);
  const dir = tempDir(t);
  const [aclFile, passwordFile] = [join(dir, 'acl'), join(dir, 'passwd')];
  writeFileSync(aclFile, 'user alice\ntopic write a\n');
  writeFileSync(passwordFile, '');
  const access = await AccessFiles.open({ aclFile, passwordFile, clock: systemClock, log: silentLog });
  const tls = {
    ...plants.issue('server', '/CN=plant'),
    ca: plants.ca,
    requireCertificate: true,
    userFromCertificate: true,
  };
  const plant = await openSecure(t, tls, { access });
  const { port } = plant;

  const alice = await enter(t, port, clientOptions(plants, plants.issue('alice', '/CN=alice')), {
    username: 'root',
    password: 'x',
  });
  assert.equal(alice.answer, 0);
  for (const topic of ['a', 'b'])
    alice.socket.write(mqtt.generate({ cmd: 'publish', topic, payload: '', qos: 0, dup: false, retain: false }));
  await until(
    'both messages',
    () => plant.broker.status().dropped.denied === 1 && plant.broker.status().received === 1,
  );

  const nameless = plants.issue('nameless', '/O=nobody');
  assert.equal((await enter(t, port, clientOptions(plants, nameless))).answer, 5);
  const stranger = authority(t, 'another-ca').issue('mallory', '/CN=alice');
  assert.match(String((await enter(t, port, clientOptions(plants, stranger))).answer), /alert|closed|reset/i);
  assert.match(String((await enter(t, port, clientOptions(plants))).answer), /alert|closed|reset/i);
  const late = plants.issue('late', '/CN=alice', -2);
  assert.match(String((await enter(t, port, clientOptions(plants, late))).answer), /alert|closed|reset/i);
});

test('the whole subject is the user where that is said, as Mosquitto writes it', { skip }, async (t) => {
  const plants = authority(t);
  const aclFile = join(tempDir(t), 'acl');
  writeFileSync(aclFile, 'user CN=press 7,OU=hall 2,O=plant\ntopic write a\nuser press 7\ntopic write b\n');
  const access = await AccessFiles.open({ aclFile, passwordFile: undefined, clock: systemClock, log: silentLog });
  const names = { requireCertificate: true, userFromCertificate: true, certificateName: 'subject' } as const;
  const tls = { ...plants.issue('server', '/CN=plant'), ca: plants.ca, ...names };
  const plant = await openSecure(t, tls, { access });
  const own = clientOptions(plants, plants.issue('press', '/O=plant/OU=hall 2/CN=press 7'));
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const { answer, socket } = await enter(t, plant.port, { ...own, maxVersion }, { username: 'press 7' });
    assert.equal(answer, 0);
    const before = plant.broker.status();
    for (const topic of ['a', 'b'])
      socket.write(mqtt.generate({ cmd: 'publish', topic, payload: '', qos: 0, dup: false, retain: false }));
    await until('one message and one denial', () => {
      const { received, dropped } = plant.broker.status();
      return received === before.received + 1 && dropped.denied === before.dropped.denied + 1;
    });
  }
  // Two with one common name are two users.
  const other = clientOptions(plants, plants.issue('other', '/O=another/CN=press 7'));
  const denied = () => plant.broker.status().dropped.denied;
  const before = denied();
  const { answer, socket } = await enter(t, plant.port, other, { clientId: 'other' });
  socket.write(mqtt.generate({ cmd: 'publish', topic: 'a', payload: '', qos: 0, dup: false, retain: false }));
  assert.equal(answer, 0);
  await until('the denial', () => denied() === before + 1);
});

test('a subject is written as the openssl program writes it by RFC 2253', { skip }, (t) => {
  const plants = authority(t);
  const subjects = [
    '/CN=press',
    '/C=DE/O=plant/OU=hall 2/CN=press 7',
    '/O=Pr\u00fcf & S\u00f6hne/CN=\u6e29\u5ea6 \u{1f321}',
    '/O=a, b; <c> "d"/CN=#e\\\\f + g=h ',
    '/O=plant/CN=press+serialNumber=17+OU=x/CN= a',
    '/DC=plant/DC=example/UID=u1/emailAddress=a@b.example/CN=tab\there',
  ];
  for (const [n, subject] of subjects.entries()) {
    const { cert } = plants.issue(`s${n}`, subject);
    const shown = execFileSync(openssl as string, ['x509', '-in', cert, '-noout', '-subject', '-nameopt', 'RFC2253']);
    const expected = shown.toString().replace(/^subject=|\n$/g, '');
    assert.equal(subjectAsRfc2253(new X509Certificate(readFileSync(cert)).subject), expected);
  }
  // An attribute that has no name would be hexadecimal there: it is nobody here.
  for (const subject of ['CN=a\n1.2.3.4=b', 'CN=a + x500UniqueIdentifier=b', ''])
    assert.equal(subjectAsRfc2253(subject), null);
});

test('a certificate alone is no user where nothing says so', { skip }, async (t) => {
  const plants = authority(t);
  const tls = { ...plants.issue('server', '/CN=plant'), ca: plants.ca, requireCertificate: true };
  const { port } = await openPlant(t, { listeners: [{ url: 'mqtts://127.0.0.1:0', tls }] });
  assert.equal((await enter(t, port, clientOptions(plants, plants.issue('alice', '/CN=alice')))).answer, 5);
});

test('a revoked certificate is refused once its list is read', { skip }, async (t) => {
  const plants = authority(t);
  const [alice, bob] = [plants.issue('alice', '/CN=alice'), plants.issue('bob', '/CN=bob')];
  plants.revoke(bob);
  const tls = { ...plants.issue('server', '/CN=plant'), ca: plants.ca, requireCertificate: true, crl: plants.list() };
  const plant = await openSecure(t, tls);
  assert.equal((await enter(t, plant.port, clientOptions(plants, alice))).answer, 0);
  assert.match(String((await enter(t, plant.port, clientOptions(plants, bob))).answer), /revoked|closed|reset/i);
  plants.revoke(alice);
  plants.list();
  await plant.broker.reload();
  assert.match(String((await enter(t, plant.port, clientOptions(plants, alice))).answer), /revoked|closed|reset/i);
});

test('a renewed certificate is taken by itself, and connections that exist stay', { skip }, async (t) => {
  const plants = authority(t);
  const tls = plants.issue('server', '/CN=plant');
  const plant = await openSecure(t, tls);
  const { socket } = await enter(t, plant.port, clientOptions(plants), { clientId: 'stays' });
  const first = await shown(t, plant, plants);
  const renewed = plants.issue('renewed', '/CN=plant');
  renameSync(renewed.cert, tls.cert);
  // Only half of it is new: not to be used.
  assert.equal(await shown(t, plant, plants), first);
  renameSync(renewed.key, tls.key);
  await until('the new certificate', async () => (await shown(t, plant, plants)) !== first, 20_000);
  await alive(socket);
});

test('a reload with a certificate that does not fit its key changes nothing', { skip }, async (t) => {
  const plants = authority(t);
  const tls = plants.issue('server', '/CN=plant');
  const aclFile = join(tempDir(t), 'acl');
  writeFileSync(aclFile, 'topic a\n');
  const access = await AccessFiles.open({ aclFile, passwordFile: undefined, clock: systemClock, log: silentLog });
  const plant = await openSecure(t, tls, { access });
  const first = await shown(t, plant, plants);
  writeFileSync(aclFile, 'topic b\n');
  const renewed = plants.issue('renewed', '/CN=plant');
  const key = readFileSync(tls.key);
  copyFileSync(renewed.key, tls.key);
  await assert.rejects(plant.broker.reload(), /server\.key: is no key, or not the one of .*server\.pem/);
  assert.equal(await shown(t, plant, plants), first);
  assert.equal(access.mayPublish({ user: null, clientId: 'c' }, 'a'), true);
  writeFileSync(tls.key, key);
  await plant.broker.reload();
  assert.equal(access.mayPublish({ user: null, clientId: 'c' }, 'a'), false);
});

test('a listener does not open with files that cannot be used, and says which', { skip }, async (t) => {
  const plants = authority(t);
  const [server, other] = [plants.issue('server', '/CN=plant'), plants.issue('other', '/CN=other')];
  const text = join(tempDir(t), 'text');
  writeFileSync(text, 'no certificate');
  const client = { ca: plants.ca, requireCertificate: true };
  const cases: [TlsOptions, RegExp][] = [
    [{ ...server, key: other.key }, /server\.pem/],
    [{ ...server, key: text }, /text: is no key/],
    [{ ...server, cert: text }, /text: contains no certificate/],
    [{ ...server, ...client, ca: text }, /text: contains no certificate/],
    [{ ...server, ...client, crl: text }, /text: is no list of revoked certificates/],
    [{ ...server, cert: '/nowhere', key: '/no/key' }, /\/nowhere: cannot be read.*\n\/no\/key: cannot be read/],
  ];
  for (const [tls, message] of cases)
    await assert.rejects(
      listen({ url: 'mqtts://127.0.0.1:0', tls }, DEFAULT_LIMITS, silentLog, { onConnection() {}, onDropped() {} }),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'config.invalid');
        assert.match(error.message, message);
        return true;
      },
    );
});

test('a resumed TLS session is still its user, and ends with a reload', { skip }, async (t) => {
  const plants = authority(t);
  const [alice, bob] = [plants.issue('alice', '/CN=alice'), plants.issue('bob', '/CN=bob')];
  plants.revoke(bob);
  const client = { ca: plants.ca, crl: plants.list(), requireCertificate: true, userFromCertificate: true };
  const plant = await openSecure(t, { ...plants.issue('server', '/CN=plant'), ...client });
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const options = { ...clientOptions(plants, alice), maxVersion };
    const sessions: Buffer[] = [];
    const first = await enter(t, plant.port, {
      ...options,
      onSession: (session: Buffer) => sessions.push(session),
    } as ConnectionOptions);
    assert.equal(first.answer, 0);
    const session = await until('a ticket', () => sessions.at(-1));
    const second = await enter(t, plant.port, { ...options, session });
    assert.deepEqual([second.answer, second.socket.isSessionReused()], [0, true]);
    await plant.broker.reload();
    const third = await enter(t, plant.port, { ...options, session });
    assert.deepEqual([third.answer, third.socket.isSessionReused()], [0, false]);
  }
});

test('who never becomes a client does not hold up the end', { skip }, async (t) => {
  const plants = authority(t);
  const tls = plants.issue('server', '/CN=plant');
  const schemes = ['mqtts', 'ws', 'wss'];
  const listeners = schemes.map((scheme) => ({ url: `${scheme}://127.0.0.1:0`, ...(scheme === 'ws' ? {} : { tls }) }));
  const plant = await openPlant(t, { listeners, limits: { connectTimeoutMs: 100_000 } });
  const sockets = await Promise.all(
    plant.broker.addresses.map(async (url) => {
      const socket = connectTcp(Number(new URL(url).port), '127.0.0.1');
      t.after(() => socket.destroy());
      await once(socket, 'connect');
      return socket;
    }),
  );
  // The listener has seen it when a later one has come in.
  await enter(t, plant.port, clientOptions(plants));
  const closed = Promise.all(sockets.map((socket) => once(socket.resume(), 'close')));
  await plant.close();
  await closed;
});
