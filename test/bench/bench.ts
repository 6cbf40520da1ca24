/**
 * `npm run bench`: what the product does on this machine, next to Mosquitto in the same run where it is installed. Two noisy
 * cores are enough to compare and not enough to boast: read the ratios, and the median of several runs.
 *
 *     npm run bench -- [--seconds 3] [--rounds 3] [--rows 20000,100000] [--backlog 200000] [--isolation-rows 1000000]
 *                  [--only ingest,drain,memory,historian,isolation] [--sync-ms 0,10] [--json FILE]
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type DrainResult, drain } from './drain.js';
import { insertBench, reconcileBench } from './historian.js';
import { type IsolationResult, isolation } from './isolation.js';
import { gateway, mosquitto, mosquittoWithSnapshots, type Running, rssMiB, scratch } from './peers.js';

const PUBLISHER = new URL('./publisher.js', import.meta.url).pathname;
const CLIENTS = 8;
const WINDOWS = [1, 20, 200];
const PAYLOAD_BYTES = 100;
const BACKLOG_PAYLOAD_BYTES = 1_000;

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    rows: { type: 'string', default: '20000,100000' },
    backlog: { type: 'string', default: '200000' },
    'isolation-rows': { type: 'string', default: '1000000' },
    'sync-ms': { type: 'string', default: '0' },
    json: { type: 'string' },
    only: { type: 'string', default: 'ingest,drain,memory,historian,isolation' },
  },
});

interface Published {
  readonly acked: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
const note = (text: string) => process.stderr.write(`${text}\n`);

function publish(port: number, window: number, seconds: number, payloadBytes: number, messages?: number): Published {
  const args = [port, CLIENTS, window, seconds, payloadBytes, ...(messages === undefined ? [] : [messages])].map(
    String,
  );
  return JSON.parse(execFileSync(process.execPath, [PUBLISHER, ...args], { encoding: 'utf8' })) as Published;
}

async function with_<T>(
  open: (dir: string) => Promise<Running | undefined>,
  use: (running: Running) => T,
): Promise<T | undefined> {
  const { dir, remove } = scratch();
  const running = await open(dir);
  try {
    return running && (await use(running));
  } finally {
    await running?.stop();
    remove();
  }
}

/** Rounds are interleaved, so that a neighbour's load hits both. */
async function ingest(seconds: number, rounds: number) {
  const results = [];
  for (const window of WINDOWS) {
    const ours: Published[] = [];
    const theirs: Published[] = [];
    const snapshots: Published[] = [];
    for (let round = 0; round < rounds; round++) {
      note(`ingest, window ${window}, round ${round + 1} of ${rounds}`);
      ours.push((await with_(gateway, ({ port }) => publish(port, window, seconds, PAYLOAD_BYTES))) as Published);
      const peer = await with_(
        (dir) => mosquitto(dir),
        ({ port }) => publish(port, window, seconds, PAYLOAD_BYTES),
      );
      if (peer) theirs.push(peer);
      const keeping = await with_(mosquittoWithSnapshots, ({ port }) => publish(port, window, seconds, PAYLOAD_BYTES));
      if (keeping) snapshots.push(keeping);
    }
    const perSecond = median(ours.map((run) => run.perSecond));
    const rateOf = (runs: Published[]) => (runs.length > 0 ? median(runs.map((run) => run.perSecond)) : null);
    const mosquittoPerSecond = rateOf(theirs);
    const p99Ms = median(ours.map((run) => run.p99Ms));
    results.push({
      window,
      perSecond,
      p99Ms,
      mosquittoPerSecond,
      snapshotsPerSecond: rateOf(snapshots),
      ratio: mosquittoPerSecond && perSecond / mosquittoPerSecond,
    });
  }
  return results;
}

async function backlog(rows: number) {
  note(`memory with ${rows} rows of ${BACKLOG_PAYLOAD_BYTES} bytes waiting`);
  return with_(gateway, ({ port, pid }) => {
    const emptyMiB = rssMiB(pid);
    const { acked, perSecond } = publish(port, 200, 600, BACKLOG_PAYLOAD_BYTES, rows);
    return { rows: acked, perSecond, emptyMiB, fullMiB: rssMiB(pid) };
  });
}

const seconds = Number(flags.seconds);
const rounds = Number(flags.rounds);
const asked = new Set(flags.only.split(','));
const ingestResults = asked.has('ingest') ? await ingest(seconds, rounds) : [];
const drains: DrainResult[] = [];
for (const rows of asked.has('drain') ? flags.rows.split(',').map(Number) : []) {
  for (const rttMs of [0, 50]) {
    const runs: DrainResult[] = [];
    for (let round = 0; round < rounds; round++) {
      note(`drain of ${rows} rows at ${rttMs} ms, round ${round + 1} of ${rounds}`);
      const { dir, remove } = scratch();
      runs.push(await drain(join(dir, 'spool.db'), rows, rttMs));
      remove();
    }
    runs.sort((a, b) => a.rowsPerSecond - b.rowsPerSecond);
    drains.push(runs[Math.floor(runs.length / 2)] as DrainResult);
  }
}
const inserts = asked.has('historian') ? await insertBench(note) : [];
const reconciles = asked.has('historian') ? await reconcileBench(note) : [];
const memory = asked.has('memory') ? await backlog(Number(flags.backlog)) : undefined;

const isolations: IsolationResult[] = [];
for (const syncMs of asked.has('isolation') ? flags['sync-ms'].split(',').map(Number) : []) {
  const { dir, remove } = scratch();
  isolations.push(await isolation({ dir, rows: Number(flags['isolation-rows']), seconds, rounds, syncMs, note }));
  remove();
}

const table = (title: string, header: string[], lines: (string | number | null)[][]) => {
  const cells = [header, ...lines.map((line) => line.map((cell) => (cell === null ? '–' : String(cell))))];
  const widths = header.map((_, i) => Math.max(...cells.map((line) => (line[i] as string).length)));
  console.log(`\n${title}`);
  for (const line of cells) console.log(`  ${line.map((cell, i) => cell.padStart(widths[i] as number)).join('  ')}`);
};
const rate = (value: number | null) => (value === null ? null : value.toLocaleString('en-US'));

if (ingestResults.length > 0)
  table(
    `durable QoS 1 ingest, ${CLIENTS} clients, ${PAYLOAD_BYTES} B, msg/s acknowledged (median of ${rounds})`,
    ['window', 'holdfast', 'p99 ms', 'mosquitto, no persistence', 'ratio', 'mosquitto, autosave_interval 1'],
    ingestResults.map((r) => [
      r.window,
      rate(r.perSecond),
      r.p99Ms.toFixed(1),
      rate(r.mosquittoPerSecond),
      r.ratio === null ? null : r.ratio.toFixed(2),
      rate(r.snapshotsPerSecond),
    ]),
  );
if (drains.length > 0)
  table(
    'drain of a backlog of readings',
    ['rows', 'RTT ms', 'rows/s', 'bytes/reading'],
    drains.map((r) => [rate(r.rows), r.rttMs, rate(r.rowsPerSecond), r.bytesPerReading.toFixed(2)]),
  );
if (memory) {
  table(
    'memory of the gateway',
    ['rows waiting', 'RSS MiB empty', 'RSS MiB full', 'msg/s'],
    [[rate(memory.rows), memory.emptyMiB, memory.fullMiB, rate(memory.perSecond)]],
  );
}
if (isolations.length > 0) {
  table(
    'a message between two local clients: idle, and with the cloud cut off, a backlog and two frozen subscribers',
    ['sync +ms', 'rows', 'idle p50/p99 ms', 'loaded p50/p99 ms', 'p99 ratio', 'RSS MiB idle/filled/after'],
    isolations.map(({ syncMs, rows, idle, loaded, ratio, idleMiB, filledMiB, loadedMiB }) => [
      syncMs,
      rate(rows),
      ...[idle, loaded].map(({ p50Ms, p99Ms }) => `${p50Ms.toFixed(2)} / ${p99Ms.toFixed(2)}`),
      ratio.toFixed(2),
      `${idleMiB} / ${filledMiB} / ${loadedMiB}`,
    ]),
  );
}
if (inserts.length > 0)
  table(
    'rows into the historian',
    ['store', 'rows a batch', 'rows/s', 'raw COPY rows/s', 'ratio'],
    inserts.map((r) => [
      r.store,
      rate(r.batchRows),
      rate(r.rowsPerSecond),
      rate(r.copyPerSecond),
      r.copyPerSecond === null ? null : (r.rowsPerSecond / r.copyPerSecond).toFixed(2),
    ]),
  );
if (reconciles.length > 0)
  table(
    'reconcile of a day',
    ['store', 'readings', 'seconds', 'metric hours incomplete'],
    reconciles.map((r) => [r.store, rate(r.rows), r.seconds, r.incomplete]),
  );
if (flags.json)
  writeFileSync(
    flags.json,
    `${JSON.stringify({ ingest: ingestResults, drains, memory, isolations, inserts, reconciles }, null, 2)}\n`,
  );
