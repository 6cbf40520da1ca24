import assert from 'node:assert/strict';
import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PostgresPool } from '../../src/ingest/postgres-pool.js';
import { Authority } from '../helpers/certificates.js';
import { peer } from '../helpers/peers.js';
import { askUrl, openDatabase, skipPostgres } from '../helpers/postgres.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const openssl = peer('openssl');
const skip = openssl ? skipPostgres : 'openssl is not installed';

test('the database must prove who it is, by an authority that is trusted and by its name', { skip }, async (t) => {
  const url = await openDatabase();
  const plant = new Authority(openssl as string, tempDir(t));
  const stranger = new Authority(openssl as string, tempDir(t), 'stranger');
  const { cert, key } = plant.issue('database', '/CN=database');
  // Beside the server's data, whose owner it runs as.
  const [{ data_directory: data, uid }] = (await askUrl(
    url,
    "SELECT current_setting('data_directory') AS data_directory, pg_read_file('/proc/self/status') AS uid",
  )) as [{ data_directory: string; uid: string }];
  const owner = Number(/^Uid:\s+(\d+)/m.exec(uid)?.[1]);
  for (const [name, file] of [
    ['server.crt', cert],
    ['server.key', key],
  ] as const) {
    const path = join(data, name);
    writeFileSync(path, readFileSync(file));
    chmodSync(path, 0o600);
    if (process.getuid?.() === 0) chownSync(path, owner, owner);
  }
  await askUrl(url, 'ALTER SYSTEM SET ssl = on');
  await askUrl(url, 'SELECT pg_reload_conf()');
  const ask = async (tls: object, at = url) => {
    const pool = new PostgresPool({ url: at, tls, connections: 1, applicationName: 'test' });
    try {
      return await pool.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
    } finally {
      await pool.close();
    }
  };
  const encrypted = await until('the server to have TLS', () => ask({ ca: plant.ca }).catch(() => undefined));
  assert.deepEqual(encrypted, [{ ssl: true }]);
  await assert.rejects(ask({}), { code: 'historian.io' });
  await assert.rejects(ask({ ca: stranger.ca }), { code: 'historian.io' });
  await assert.rejects(ask({ ca: plant.ca, servername: 'other.example' }), {
    code: 'historian.io',
    message: /altname/,
  });
  await assert.rejects(ask({ ca: plant.ca }, `${url}?sslmode=disable`), { code: 'config.invalid' });
});
