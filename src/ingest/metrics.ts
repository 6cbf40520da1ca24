import type { Histogram } from '../lib/histogram.js';
import type { Labelled, Metric } from '../web/metrics.js';
import type { Totals } from './historian.js';
import type { IngestStatus } from './status.js';

export interface IngestReadings {
  readonly status: IngestStatus;
  readonly storeDuration: Histogram;
}

type Name = Metric<IngestReadings>['name'];
type Read<T> = (status: IngestStatus) => T;

const counter = (name: Name, help: string, read: Read<number | Labelled>) =>
  ({ name, type: 'counter', help, read: ({ status }) => read(status) }) as const satisfies Metric<IngestReadings>;
const gauge = (name: Name, help: string, read: Read<number | null | Labelled>) =>
  ({ name, type: 'gauge', help, read: ({ status }) => read(status) }) as const satisfies Metric<IngestReadings>;

const OUTCOMES = ['stored', 'duplicates', 'conflicts', 'gaps', 'quarantined', 'opaque'] as const;
const byOutcome = (counts: Pick<Totals, (typeof OUTCOMES)[number]>): Labelled =>
  OUTCOMES.map((outcome) => [{ outcome }, counts[outcome]] as const);

/** Steps of how far gateways are behind; thousands of gateways must not make thousands of series. */
const BEHIND_S = [60, 600, 3_600, 86_400];
const behind: Read<Labelled> = ({ ages }) =>
  BEHIND_S.map((s) => [{ over_seconds: String(s) }, ages.filter((ageMs) => ageMs > s * 1000).length] as const);

/**
 * Everything that `/metrics` of an ingest shows. `holdfast_ingest_…` is this worker's own, to be summed over workers;
 * `holdfast_historian_…` is what the store holds, the same from each of them.
 */
export const INGEST_METRICS: readonly Metric<IngestReadings>[] = [
  gauge('holdfast_ingest_info', 'What runs here; always 1.', ({ version }) => [[{ version }, 1]]),
  gauge('holdfast_ingest_connected', '1 while subscribed at the broker.', ({ connected }) => (connected ? 1 : 0)),
  gauge('holdfast_ingest_storing', '0 while the store takes nothing.', ({ storeProblem }) => (storeProblem ? 0 : 1)),
  gauge(
    'holdfast_ingest_batches_inflight',
    'Batches that have arrived and are not stored yet.',
    (s) => s.worker.batchesInHand,
  ),
  counter('holdfast_ingest_batches_total', 'Batches settled since the start.', ({ worker }) => worker.batches),
  counter('holdfast_ingest_received_bytes_total', 'Bytes of those batches.', ({ worker }) => worker.bytes),
  counter('holdfast_ingest_rows_total', 'Rows settled since the start, by what became of them.', ({ worker }) =>
    byOutcome(worker),
  ),
  counter(
    'holdfast_ingest_dead_batches_total',
    'Batches kept aside since the start.',
    ({ worker }) => worker.deadBatches,
  ),
  counter(
    'holdfast_ingest_failures_total',
    'Batches that the store could not take; they come again.',
    (s) => s.worker.failures,
  ),
  {
    name: 'holdfast_ingest_store_duration_seconds',
    type: 'histogram',
    help: 'From the arrival of a batch until it was durable.',
    read: ({ storeDuration }) => storeDuration,
  },
  counter('holdfast_historian_rows_total', 'Rows since the store was made, by what became of them.', byOutcome),
  counter('holdfast_historian_batches_total', 'Batches since the store was made.', ({ batches }) => batches),
  gauge('holdfast_historian_dead_batches', 'Batches that are kept aside.', ({ deadBatches }) => deadBatches),
  gauge('holdfast_historian_sources', 'Gateways and epochs that have sent something.', ({ ledger }) => ledger.length),
  gauge('holdfast_historian_holes', 'Ranges of seqs that are neither here nor given up.', ({ holes }) => holes),
  gauge('holdfast_historian_missing_rows', 'Seqs in those ranges.', ({ missing }) => missing),
  gauge(
    'holdfast_historian_late_holes',
    'Of those ranges, the ones that have been there for ten minutes.',
    (s) => s.watch.lateHoles,
  ),
  gauge('holdfast_historian_lost_rows', 'Seqs that gateways gave up on.', ({ lost }) => lost),
  gauge('holdfast_historian_gateways', 'Gateways that have sent something.', ({ ages }) => ages.length),
  gauge('holdfast_historian_gateways_behind', 'Gateways whose newest reading is older than that.', behind),
  gauge('holdfast_historian_freshness_seconds', 'Age of the newest reading of all gateways.', ({ freshnessMs }) =>
    freshnessMs === null ? null : freshnessMs / 1000,
  ),
  gauge(
    'holdfast_historian_oldest_gateway_age_seconds',
    'Age of the newest reading of the gateway that is furthest behind.',
    ({ ages }) => (ages.length === 0 ? null : ages.reduce((most, age) => Math.max(most, age)) / 1000),
  ),
  gauge(
    'holdfast_reconcile_outages_open',
    'Outages that are over and not proved complete yet.',
    (s) => s.watch.outages.length,
  ),
  gauge(
    'holdfast_reconcile_outages_overdue',
    'Of those, the ones that were not proved in time.',
    (s) => s.watch.outages.filter(({ overdue }) => overdue).length,
  ),
  gauge('holdfast_reconcile_last_timestamp_seconds', 'When an outage was last reconciled.', ({ watch }) =>
    watch.lastReconciledAt === null ? null : watch.lastReconciledAt / 1000,
  ),
];
