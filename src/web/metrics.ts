/**
 * `/metrics` in the Prometheus text format. The only file that knows prom-client, which is loaded by the first scrape: a
 * process that nobody scrapes pays neither its start-up time nor its memory.
 *
 * What is shown is read from one snapshot per scrape, so its numbers agree with each other and counting costs nothing where
 * the work is done. Names have the form `holdfast_<thing>_<unit>[_total]`, base units, and labels with few values only.
 */
import type { Metric as PromMetric, Registry } from 'prom-client';
import { within } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import type { Histogram } from '../lib/histogram.js';
import { type Log, silentLog } from '../lib/log.js';
import { type Answer, refusal } from './answer.js';
import { STATUS_WAIT_MS } from './sampler.js';
import type { Routes } from './server.js';

export type Labelled = readonly (readonly [labels: Readonly<Record<string, string>>, value: number])[];
/** Null: not known now, so that no sample is shown; a list of labelled values; or one value. */
export type Samples = number | null | Labelled | Histogram;

export interface Metric<Source> {
  readonly name: `holdfast_${string}`;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly read: (source: Source) => Samples;
}

/**
 * Of the process itself; the others that prom-client offers are many, and some have names that Prometheus advises against.
 * Some set those that come after them, so they go together.
 */
const PROCESS_METRICS: ReadonlySet<string> = new Set([
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'process_resident_memory_bytes',
  'process_open_fds',
  'process_max_fds',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
]);

export interface MetricsOptions<Source> {
  readonly metrics: readonly Metric<Source>[];
  /** Called for each scrape; must not touch the disk. */
  readonly source: () => Source | Promise<Source>;
  readonly log?: Log;
}

/** The route; a snapshot that cannot be had is answered with 503, which a scraper shows as `up 0`. */
export function metricsRoute<Source>({ metrics, source, log = silentLog }: MetricsOptions<Source>): Routes {
  let registry: Promise<Registry> | undefined;
  let snapshot: Source;
  const open = () => openRegistry(metrics, () => snapshot);
  return {
    '/metrics': async (): Promise<Answer> => {
      try {
        registry ??= open();
        const opened = await registry;
        const taken = await within(Promise.resolve(source()), STATUS_WAIT_MS, 'The status');
        // All metrics are read before anything else can run, so two scrapes at a time do not mix.
        snapshot = taken;
        return { status: 200, type: opened.contentType, body: await opened.metrics() };
      } catch (error) {
        log.debug({ error: messageOf(error) }, 'A scrape failed');
        return refusal(503, 'no-status', 'The metrics could not be read.', { 'retry-after': '5' });
      }
    },
  };
}

async function openRegistry<Source>(metrics: readonly Metric<Source>[], snapshot: () => Source): Promise<Registry> {
  const { collectDefaultMetrics, Registry } = (await import('prom-client')).default;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray())
    if (!PROCESS_METRICS.has(name)) registry.removeSingleMetric(name);
  for (const metric of metrics) registry.registerMetric(asPromMetric(metric, snapshot));
  return registry;
}

/** A registry asks each metric for its values, and nothing else of it; so a snapshot needs no counters of prom-client's own. */
function asPromMetric<Source>({ name, type, help, read }: Metric<Source>, snapshot: () => Source): PromMetric<string> {
  const get = async () => ({ name, help, type, aggregator: 'sum', values: valuesOf(name, read(snapshot())) });
  return { name, help, type, get } as unknown as PromMetric<string>;
}

interface Value {
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly metricName?: string;
}

function valuesOf(name: string, samples: Samples): Value[] {
  if (samples === null) return [];
  if (typeof samples === 'number') return [{ value: samples, labels: {} }];
  if ('bounds' in samples) return histogramValues(name, samples);
  return samples.map(([labels, value]) => ({ labels, value }));
}

function histogramValues(name: string, { bounds, counts, sum, count }: Histogram): Value[] {
  let upTo = 0;
  const buckets = counts.map((inRange, range): Value => {
    upTo += inRange;
    return { metricName: `${name}_bucket`, labels: { le: String(bounds[range] ?? '+Inf') }, value: upTo };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels: {}, value: sum },
    { metricName: `${name}_count`, labels: {}, value: count },
  ];
}
