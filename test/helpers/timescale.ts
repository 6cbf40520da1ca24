import type { TestContext } from 'node:test';
import { askUrl } from './postgres.js';

const server = process.env.HOLDFAST_TIMESCALE_URL;

/**
 * For `{ skip }`. TimescaleDB is in no package archive that CI could use, so its absence is a skip everywhere: name a server
 * whose user may create databases, and `HOLDFAST_TIMESCALE_VERSION` if not the newest it has.
 */
export const skipTimescale = server ? false : 'HOLDFAST_TIMESCALE_URL names no server with TimescaleDB';

let databases = 0;

/** A database of its own with the extension, dropped after the test. */
export async function timescaleDatabase(t: TestContext, licence: 'timescale' | 'apache' = 'timescale'): Promise<string> {
  const name = `holdfast_${process.pid}_${++databases}`;
  await askUrl(server as string, `CREATE DATABASE ${name}`);
  t.after(() => askUrl(server as string, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(server as string);
  url.pathname = `/${name}`;
  const version = process.env.HOLDFAST_TIMESCALE_VERSION;
  await askUrl(url.href, `CREATE EXTENSION timescaledb${version ? ` VERSION '${version}'` : ''}`);
  // From a session that has not loaded the extension, which would hold its licence fast.
  if (licence === 'apache') await askUrl(server as string, `ALTER DATABASE ${name} SET timescaledb.license = 'apache'`);
  return url.href;
}
