import { execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import pg from 'pg';
import { PostgresHistorian, type PostgresHistorianOptions } from '../../src/ingest/postgres-historian.js';
import { freePort } from '../../src/sim/free-port.js';
import { stoppedClock } from './historian.js';
import { peer } from './peers.js';
import { until } from './wait.js';

/** Debian keeps the server's programs out of the PATH. */
const FOLDERS = [15, 16, 17, 18].map((version) => `/usr/lib/postgresql/${version}/bin`);
const bin = FOLDERS.find((folder) => existsSync(`${folder}/initdb`));

/** For `{ skip }`: false where PostgreSQL is installed. */
export const skipPostgres = bin || peer('initdb') ? false : 'PostgreSQL is not installed';

interface Cluster {
  readonly dir: string;
  readonly port: number;
  readonly as: SpawnOptions;
  child: ReturnType<typeof spawn>;
}

let cluster: Promise<Cluster> | undefined;
let databases = 0;

/** PostgreSQL refuses to run as root, so there it runs as `nobody`. */
async function openCluster(): Promise<Cluster> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-pg-'));
  const as: SpawnOptions = {};
  if (process.getuid?.() === 0) {
    const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
    Object.assign(as, { uid: id('-u'), gid: id('-g') });
    chownSync(dir, as.uid as number, as.gid as number);
  }
  const port = await freePort();
  const initdb = spawn(
    program('initdb'),
    ['-D', `${dir}/data`, '-U', 'holdfast', '-A', 'trust', '-E', 'UTF8', '--no-locale'],
    {
      ...as,
      cwd: dir,
      stdio: 'ignore',
    },
  );
  await once(initdb, 'exit');
  const opened: Cluster = { dir, port, as, child: start(dir, port, as) };
  await reachable(port);
  return opened;
}

function start(dir: string, port: number, as: SpawnOptions): ReturnType<typeof spawn> {
  const settings = [
    'listen_addresses=127.0.0.1',
    `port=${port}`,
    `unix_socket_directories=${dir}`,
    'shared_buffers=32MB',
  ];
  const args = ['-D', `${dir}/data`, ...settings.flatMap((setting) => ['-c', setting])];
  return spawn(program('postgres'), args, { ...as, cwd: dir, stdio: 'ignore' });
}

function program(name: string): string {
  return bin ? `${bin}/${name}` : (peer(name) as string);
}

const urlOf = (port: number, database: string) => `postgres://holdfast@127.0.0.1:${port}/${database}`;

async function reachable(port: number): Promise<void> {
  await until('PostgreSQL to answer', () => askUrl(urlOf(port, 'postgres'), 'SELECT 1').catch(() => undefined), 30_000);
}

/** A database of its own on the real PostgreSQL of this test file, which ends with the file. */
export async function openDatabase(): Promise<string> {
  cluster ??= openCluster();
  const { port } = await cluster;
  const name = `test_${process.pid}_${++databases}`;
  await askUrl(urlOf(port, 'postgres'), `CREATE DATABASE ${name}`);
  return urlOf(port, name);
}

/** Ends the server at once, as a crash would, and starts it again on its files. */
export async function crashPostgres(): Promise<void> {
  const one = (await cluster) as Cluster;
  await end(one.child, 'SIGQUIT');
  one.child = start(one.dir, one.port, one.as);
  await reachable(one.port);
}

export async function openPostgres(t: TestContext, options: Partial<PostgresHistorianOptions> = {}) {
  const url = options.url ?? (await openDatabase());
  const historian = await PostgresHistorian.open({ clock: stoppedClock, ...options, url });
  t.after(() => historian.close());
  const sql = <Row extends pg.QueryResultRow>(text: string, ...values: unknown[]) => askUrl<Row>(url, text, ...values);
  return { url, historian, sql };
}

/** Asks the database over a connection of its own. int8 comes as a number. */
export async function askUrl<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  ...values: unknown[]
): Promise<Row[]> {
  const getTypeParser = ((oid: number) =>
    oid === 20 ? Number : pg.types.getTypeParser(oid)) as typeof pg.types.getTypeParser;
  const client = new pg.Client({ connectionString: url, types: { getTypeParser } });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

async function end(child: ReturnType<typeof spawn>, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}

after(async () => {
  if (!cluster) return;
  const { child, dir } = await cluster;
  await end(child, 'SIGINT');
  rmSync(dir, { recursive: true, force: true });
});
