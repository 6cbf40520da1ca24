import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { chownSync, existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from '../../src/sim/free-port.js';
import { scratch } from './peers.js';

const FOLDERS = [15, 16, 17, 18].map((version) => `/usr/lib/postgresql/${version}/bin`);
const bin = FOLDERS.find((folder) => existsSync(`${folder}/initdb`));

export interface Postgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** A PostgreSQL of its own with durable commits; undefined when it is not installed. */
export async function openPostgres(): Promise<Postgres | undefined> {
  if (!bin) return undefined;
  const { dir, remove } = scratch();
  const as: SpawnOptions = {};
  if (process.getuid?.() === 0) {
    const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
    Object.assign(as, { uid: id('-u'), gid: id('-g') });
    chownSync(dir, as.uid as number, as.gid as number);
  }
  const options = ['-D', `${dir}/data`, '-U', 'holdfast', '-A', 'trust', '-E', 'UTF8', '--no-locale'];
  execFileSync(`${bin}/initdb`, options, { ...as, cwd: dir, stdio: 'ignore' } as object);
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, `unix_socket_directories=${dir}`, ...SETTINGS];
  const child = spawn(`${bin}/postgres`, ['-D', `${dir}/data`, ...settings.flatMap((one) => ['-c', one])], {
    ...as,
    cwd: dir,
    stdio: 'ignore',
  });
  const url = `postgres://holdfast@127.0.0.1:${port}/postgres`;
  while (!(await answers(url))) await delay(50);
  return { url, stop: () => stop(child, remove) };
}

/** What a server for a historian would have; commits stay durable. */
const SETTINGS = ['shared_buffers=256MB', 'max_wal_size=4GB', 'max_connections=100'];

export async function sql<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

async function answers(url: string): Promise<boolean> {
  return sql(url, 'SELECT 1').then(
    () => true,
    () => false,
  );
}

async function stop(child: ChildProcess, remove: () => void): Promise<void> {
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGINT');
  await exit;
  remove();
}
