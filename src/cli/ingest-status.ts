import type { Command } from 'commander';
import type { LedgerEntry } from '../ingest/historian.js';
import type { IngestStatus } from '../ingest/status.js';
import type { Act } from './command.js';
import { fetchStatus, type StatusFlags, showStatus } from './fetch-status.js';
import { bytes, duration, number, rows } from './status-text.js';

/** The gateways that are furthest behind; a fleet does not fit on a screen, and `--json` has them all. */
const GATEWAYS_SHOWN = 10;

interface Workers {
  readonly workers: readonly (IngestStatus & { readonly url: string })[];
}

export function ingestStatusCommand(ingest: Command, act: Act): void {
  ingest
    .command('status')
    .description('running ingest workers and what the store holds; exit code 1 when something needs a human')
    .option('--url <url...>', 'web addresses of the workers', ['http://127.0.0.1:8081'])
    .option('--json', 'the whole status of each worker as one object')
    .option('--watch', 'again every second, until interrupted')
    .action(
      act((io, { url: urls }: { url: string[] }, command: Command) => {
        // `--json` is a flag of `ingest`, too, which takes it wherever it stands.
        const flags = command.optsWithGlobals<StatusFlags>();
        const take = async (): Promise<Workers> => ({
          workers: await Promise.all(
            urls.map(async (url) => ({ url, ...(await fetchStatus<IngestStatus>(url, io.stop)) })),
          ),
        });
        return showStatus(io, flags, take, screen, findings);
      }),
    );
}

/** The store is the same for all workers; whoever has stored last knows it best. */
function freshest({ workers }: Workers): IngestStatus {
  return workers.reduce((best, one) => ((one.lastBatchAt ?? 0) > (best.lastBatchAt ?? 0) ? one : best));
}

function screen(all: Workers): string[] {
  const store = freshest(all);
  const { now, ledger, watch } = store;
  const behind = [...ledger].filter(({ newestTs }) => newestTs !== null).sort((a, b) => a.newestTs! - b.newestTs!);
  return [
    ...all.workers.map(({ url, worker, connected, startedAt, version, problem }) => {
      const state = connected ? 'subscribed' : `not subscribed: ${problem}`;
      const did = `${number(worker.batches)} batches, ${number(worker.rows)} rows, ${bytes(worker.bytes)}`;
      return `worker ${url}: ${state}, version ${version}, up ${duration(now - startedAt)}; ${did}, ${number(worker.rowsPerSecond)} rows/s`;
    }),
    ...rows([
      ['store', `${number(store.rows)} rows in ${number(store.batches)} batches: ${number(store.stored)} readings`],
      [
        '',
        `${number(store.duplicates)} duplicates absorbed, ${number(store.gaps)} gaps, ${number(store.opaque)} other messages`,
      ],
      [
        'aside',
        `${number(store.conflicts)} conflicts, ${number(store.quarantined)} quarantined, ${number(store.deadBatches)} broken batches`,
      ],
      [
        'holes',
        `${number(store.holes)} with ${number(store.missing)} rows, of them late ${number(watch.lateHoles)}; given up ${number(store.lost)}`,
      ],
      ['outages', `${watch.outages.length} to be proved complete`],
      [
        'newest',
        `${store.freshnessMs === null ? 'nothing yet' : `${duration(store.freshnessMs)} old`}, ${ledger.length} gateways`,
      ],
    ]),
    ...(behind.length > 0 ? ['  furthest behind'] : []),
    ...behind.slice(0, GATEWAYS_SHOWN).map((entry) => `    ${gatewayText(entry, now)}`),
  ];
}

function gatewayText({ gateway, epoch, newestTs, lastBatchAt, last, holes }: LedgerEntry, now: number): string {
  const hole = holes.length > 0 ? `, ${holes.length} holes` : '';
  return `${gateway}/${epoch}: ${duration(now - newestTs!)} behind, last batch ${duration(now - lastBatchAt)} ago, seq ${number(last)}${hole}`;
}

function findings(all: Workers): string[] {
  const store = freshest(all);
  const overdue = store.watch.outages.filter((one) => one.overdue);
  return [
    ...all.workers
      .filter(({ connected, problem }) => !connected || problem !== null)
      .map(({ url, problem }) => `${url}: ${problem ?? 'not connected'}`),
    store.watch.lateHoles > 0 && `${number(store.watch.lateMissing)} rows have not arrived: holdfast gaps lists them`,
    store.deadBatches > 0 && `${number(store.deadBatches)} batches could not be read: holdfast ingest dead lists them`,
    store.quarantined > 0 &&
      `${number(store.quarantined)} rows are in quarantine, for wrong clocks or identities used twice: holdfast ingest quarantine lists them`,
    store.conflicts > 0 &&
      `${number(store.conflicts)} readings disagree with others of the same key: holdfast ingest conflicts lists them`,
    ...overdue.map(({ gateway, from, incomplete }) => {
      const what = incomplete === null ? 'has not caught up' : `has ${incomplete} metric hours that are not complete`;
      return `${gateway} ${what} since ${new Date(from).toISOString()}: holdfast reconcile says what is missing`;
    }),
  ].filter((finding) => finding !== false);
}
