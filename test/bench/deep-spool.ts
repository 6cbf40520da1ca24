/**
 * A spool with a backlog of millions of rows beside an empty one: `node dist/test/bench/deep-spool.js [--rows 5000000]`.
 * Prints how long a start takes, how long one enqueue, and how many rows a second can be read and deleted. Then the same of
 * the start once some of the file's pages have been smashed, and of an enqueue while the rest of it is read.
 */
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Salvager } from '../../src/gateway/salvager.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { Seq } from '../../src/model/ids.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { reading } from '../helpers/spool.js';

const PAGE_BYTES = 4096;
const GROUP_ROWS = 5_000;
const ENQUEUES = 3_000;
const DRAIN_ROWS = 100_000;
const BATCH_ROWS = 500;
const BATCH_BYTES = 128 * 1024;
/** Pages overwritten with noise, spread over the file. */
const SMASHED_PAGES = 5;

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '5000000' } },
});
const rows = Number(values.rows);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-deep-'));

async function open(path: string) {
  const store = await Store.open({ path, tables: [Spool.tables] });
  return { store, spool: await Spool.open(store, systemClock) };
}

type Opened = Awaited<ReturnType<typeof open>>;

async function fill({ spool }: Opened, count: number): Promise<void> {
  for (let n = 0; n < count; n += GROUP_ROWS)
    await spool.enqueue(Array.from({ length: Math.min(GROUP_ROWS, count - n) }, (_, i) => reading(n + i)));
}

/** Milliseconds per enqueue, one at a time: the 50th, the 99th percentile. */
async function enqueueMs({ spool }: Opened): Promise<string> {
  const times: number[] = [];
  for (let n = 0; n < ENQUEUES; n++) {
    const before = performance.now();
    await spool.enqueue([reading(n)]);
    times.push(performance.now() - before);
  }
  times.sort((a, b) => a - b);
  const at = (share: number) => (times[Math.floor(times.length * share)] as number).toFixed(2);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}

async function drainRowsPerSecond({ spool }: Opened): Promise<number> {
  let { head } = await spool.stats();
  const first = head;
  const before = performance.now();
  while (head - first < DRAIN_ROWS) {
    const read = await spool.peek((head - 1) as Seq, BATCH_ROWS, BATCH_BYTES);
    head = ((read.at(-1)?.seq as number) + 1) as Seq;
    spool.acknowledge((head - 1) as Seq);
  }
  return Math.round(((head - first) * 1000) / (performance.now() - before));
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const before = performance.now();
  const value = await work();
  console.log(`${what}: ${((performance.now() - before) / 1000).toFixed(3)} s`);
  return value;
}

try {
  const path = join(dir, 'deep.db');
  const empty = await open(join(dir, 'empty.db'));
  console.log(`enqueue, empty spool: ${await enqueueMs(empty)}`);
  await fill(empty, DRAIN_ROWS);
  console.log(`drain, ${DRAIN_ROWS} rows: ${await drainRowsPerSecond(empty)} rows/s`);
  await empty.store.close();

  let deep = await open(path);
  await timed(`${rows} rows in`, () => fill(deep, rows));
  await deep.store.close();
  console.log(`file: ${Math.round(statSync(path).size / 2 ** 20)} MiB`);
  deep = await timed(`start with ${rows} rows`, () => open(path));
  console.log(`enqueue, ${rows} rows: ${await enqueueMs(deep)}`);
  console.log(`drain, ${rows} rows: ${await drainRowsPerSecond(deep)} rows/s`);
  await deep.store.close();

  const pages = statSync(path).size / PAGE_BYTES;
  const fd = openSync(path, 'r+');
  for (let n = 1; n <= SMASHED_PAGES; n++)
    writeSync(
      fd,
      Buffer.alloc(PAGE_BYTES, n),
      0,
      PAGE_BYTES,
      Math.floor((pages * n) / (SMASHED_PAGES + 1)) * PAGE_BYTES,
    );
  closeSync(fd);
  // A start looks at every page of so large a file only when the last run left its word of suspicion.
  writeFileSync(`${path}-suspect`, 'smashed by the benchmark\n');
  deep = await timed(`start with ${SMASHED_PAGES} smashed pages`, () => open(path));
  console.log(`salvaged by the start: ${(await deep.spool.stats()).rows} rows`);
  const { spool } = deep;
  const salvager = new Salvager({ spool, hasRoom: () => true, gaps: () => [], clock: systemClock, log: silentLog });
  await timed('the rest', async () => {
    salvager.start();
    console.log(`enqueue meanwhile: ${await enqueueMs(deep)}`);
    while (spool.toSalvage > 0) await spool.changed();
  });
  salvager.close();
  console.log(`salvaged: ${(await spool.stats()).rows - ENQUEUES} rows`);
  await deep.store.close();
} finally {
  rmSync(dir, { recursive: true });
}
