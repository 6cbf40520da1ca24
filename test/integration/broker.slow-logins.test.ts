import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Access, anonymousAccess } from '../../src/broker/access.js';
import { AccessFiles } from '../../src/broker/access-files.js';
import { newArgon2Hash } from '../../src/broker/password-hash.js';
import { systemClock } from '../../src/lib/clock.js';
import { HoldfastError } from '../../src/lib/errors.js';
import { type Log, silentLog } from '../../src/lib/log.js';
import { openPlant, RawClient } from '../helpers/broker.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const connect = (clientId: string, more: object = {}) => ({
  cmd: 'connect',
  protocolId: 'MQTT',
  protocolVersion: 5,
  clean: true,
  keepalive: 0,
  clientId,
  ...more,
});

test('a user with an argon2id entry comes in with the right password, and nobody else does', async (t) => {
  const passwordFile = join(tempDir(t), 'passwd');
  writeFileSync(passwordFile, `alice:${await newArgon2Hash('geheim')}\n`);
  const access = await AccessFiles.open({ passwordFile, aclFile: undefined, clock: systemClock, log: silentLog });
  const plant = await openPlant(t, { access, listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: false }] });
  const codeFor = async (username: string, password: string): Promise<number> => {
    const raw = await RawClient.open(t, plant.port, 5);
    raw.send(connect('c', { username, password }));
    return (await raw.next('connack')).reasonCode;
  };
  assert.equal(await codeFor('alice', 'geheim'), 0);
  assert.equal(await codeFor('alice', 'Geheim'), 0x87);
  assert.equal(await codeFor('alice', ''), 0x87);
  assert.equal(await codeFor('nobody', 'geheim'), 0x87);
  assert.equal(await codeFor('alice', 'geheim'), 0);
  assert.equal(plant.broker.status().failedLogins, 3);
});

test('a client whose CONNECT has come is not closed because its login has to wait', async (t) => {
  let admit = (): void => {};
  const turn = new Promise<void>((resolve) => {
    admit = resolve;
  });
  const access: Access = {
    ...anonymousAccess,
    authenticate: async (credentials) => {
      await turn;
      return anonymousAccess.authenticate(credentials);
    },
  };
  const plant = await openPlant(t, { access, limits: { connectTimeoutMs: 100 } });
  const patient = await RawClient.open(t, plant.port, 5);
  patient.send(connect('patient'));
  await until('its CONNECT to be read', () => plant.broker.status().connecting === 1);
  const silent = await RawClient.open(t, plant.port, 5);
  await silent.gone();
  assert.equal(patient.closed, false);
  admit();
  assert.equal((await patient.next('connack')).reasonCode, 0);
});

test('a login that fails on our side tells the operator why, and the client only that', async (t) => {
  const errors: { cause?: unknown }[] = [];
  const log: Log = { ...silentLog, error: (fields) => void errors.push(fields) };
  const access: Access = {
    ...anonymousAccess,
    authenticate: async () => Promise.reject(new HoldfastError('internal.assertion', 'out of memory at 0x17')),
  };
  const plant = await openPlant(t, { access, log });
  const raw = await RawClient.open(t, plant.port, 5);
  raw.send(connect('c'));
  const { reasonCode, properties } = await raw.next('connack');
  assert.equal(reasonCode, 0x83);
  assert.equal(properties.reasonString, 'internal error');
  assert.match(String(errors[0]?.cause), /out of memory/);
});
