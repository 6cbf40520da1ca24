import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connectAsync } from 'mqtt';
import { type Access, anonymousAccess, withoutPassword } from '../../src/broker/access.js';
import { freePort } from '../../src/sim/free-port.js';
import { openPlant } from '../helpers/broker.js';
import { Authority } from '../helpers/certificates.js';
import { Mosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const [mosquitto, openssl] = [peer('mosquitto'), peer('openssl')];
const SUBJECTS = [
  '/CN=press',
  '/C=DE/O=plant/OU=hall 2/CN=press 7',
  '/O=Prüf & Söhne/CN=温度',
  '/O=a, b; <c> "d"/CN=#e + g=h ',
  '/O=plant/CN=press+serialNumber=17',
];

test('a certificate names the same user to Mosquitto and to Holdfast, by common name and by subject', {
  skip: mosquitto && openssl ? false : 'mosquitto or openssl is not installed',
}, async (t) => {
  const plants = new Authority(openssl as string, tempDir(t));
  const server = plants.issue('server', '/CN=plant');
  const own = SUBJECTS.map((subject, n) => plants.issue(`c${n}`, subject));
  const logFile = join(tempDir(t), 'log');
  const secure = async (how: string): Promise<[port: number, lines: string[]]> => {
    const port = await freePort();
    const files = [`certfile ${server.cert}`, `keyfile ${server.key}`, `cafile ${plants.ca}`];
    return [port, [`listener ${port} 127.0.0.1`, ...files, 'require_certificate true', `use_${how}_as_username true`]];
  };
  const [[byName, nameLines], [bySubject, subjectLines]] = [await secure('identity'), await secure('subject')];
  // Otherwise it reads the files as another user, who may not.
  const log = [`log_dest file ${logFile}`, 'log_type all', `user ${userInfo().username}`];
  await Mosquitto.open(t, mosquitto as string, [...nameLines, ...subjectLines, ...log]);

  const seen = new Map<string, string | null>();
  const access: Access = {
    ...anonymousAccess,
    authenticate: async (credentials) => {
      seen.set(credentials.clientId, credentials.certificateUser ?? null);
      return withoutPassword(credentials) ?? null;
    },
  };
  const listeners = (['common-name', 'subject'] as const).map((certificateName) => ({
    url: 'mqtts://127.0.0.1:0',
    tls: { ...server, ca: plants.ca, requireCertificate: true, userFromCertificate: true, certificateName },
  }));
  const { broker } = await openPlant(t, { access, listeners });
  const ports = broker.addresses.map((url) => Number(new URL(url).port));

  const ids: string[] = [];
  for (const [n, { cert, key }] of own.entries()) {
    for (const [way, pair] of [
      [byName, ports[0]],
      [bySubject, ports[1]],
    ].entries()) {
      const clientId = `c${n}-${way}`;
      ids.push(clientId);
      const files = { ca: readFileSync(plants.ca), cert: readFileSync(cert), key: readFileSync(key) };
      for (const port of pair) {
        const client = await connectAsync(`mqtts://127.0.0.1:${port}`, { ...files, clientId, reconnectPeriod: 0 });
        await client.endAsync();
      }
    }
  }
  const named = (clientId: string) => {
    const text = existsSync(logFile) ? readFileSync(logFile, 'utf8') : '';
    return new RegExp(` as ${clientId} \\(p\\d, c\\d, k\\d+, u'(.*)'\\)`).exec(text)?.[1];
  };
  for (const id of ids) assert.equal(seen.get(id), await until(`the log to name ${id}`, () => named(id)), id);
});
