import type { TestContext } from 'node:test';
import { askUrl } from './postgres.js';

const server = process.env.HOLDFAST_TIMESCALE_URL;

/**
 * For `{ skip }`. TimescaleDB is in no package archive that CI could use, so its absence is a skip everywhere: name a server
 * whose user may create databases, and `HOLDFAST_TIMESCALE_VERSION` if not the newest it has.
 */
export const skipTimescale = server ? false : 'HOLDFAST_TIMESCALE_URL names no server with TimescaleDB';

/** The licence is a setting of the whole server, so a server has the tests of one. */
const licence =
  server && ((await askUrl(server, "SELECT current_setting('timescaledb.license', true) AS of"))[0]?.of ?? 'timescale');
const other = (wanted: string) => (licence === wanted ? false : `the server's licence is ${licence}, not ${wanted}`);
export const skipUnless = { timescale: skipTimescale || other('timescale'), apache: skipTimescale || other('apache') };

let databases = 0;

/** A database of its own, dropped after the test. */
export async function timescaleDatabase(t: TestContext, extension = true): Promise<string> {
  const name = `holdfast_${process.pid}_${++databases}`;
  await askUrl(server as string, `CREATE DATABASE ${name}`);
  t.after(() => askUrl(server as string, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(server as string);
  url.pathname = `/${name}`;
  if (extension) await createExtension(url.href);
  return url.href;
}

export async function createExtension(url: string): Promise<void> {
  const version = process.env.HOLDFAST_TIMESCALE_VERSION;
  await askUrl(url, `CREATE EXTENSION timescaledb${version ? ` VERSION '${version}'` : ''}`);
}
