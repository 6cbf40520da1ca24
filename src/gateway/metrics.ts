import type { GatewayStatus } from '../model/status.js';
import type { Labelled, Metric } from '../web/metrics.js';
import type { Timings } from './timing.js';

export interface GatewayReadings {
  readonly status: GatewayStatus;
  readonly timings: Timings;
  /** Free bytes on the spool's device; null when it cannot be asked. */
  readonly diskFreeBytes: number | null;
}

type Read<T> = (status: GatewayStatus) => T;

const counter = (name: Metric<GatewayReadings>['name'], help: string, read: Read<number | Labelled>) =>
  ({ name, type: 'counter', help, read: ({ status }) => read(status) }) as const satisfies Metric<GatewayReadings>;
const gauge = (name: Metric<GatewayReadings>['name'], help: string, read: Read<number | null | Labelled>) =>
  ({ name, type: 'gauge', help, read: ({ status }) => read(status) }) as const satisfies Metric<GatewayReadings>;

const seconds = (ms: number | null) => (ms === null ? null : ms / 1000);

/** One sample per device; the label is bounded by the config. */
const perDevice =
  (read: (reader: GatewayStatus['readers'][number]) => number | null): Read<Labelled> =>
  ({ readers }) =>
    readers.flatMap((reader) => {
      const value = read(reader);
      return value === null ? [] : [[{ device: reader.asset }, value] as const];
    });

/** A set of states as one 0-or-1 sample each, so that a rule can name the one it means. */
const oneHot = (label: string, states: readonly string[], now: string): Labelled =>
  states.map((state) => [{ [label]: state }, state === now ? 1 : 0] as const);

const STATES = ['ok', 'degraded', 'failed'];
const UPSTREAM_STATES = ['connecting', 'online', 'stalled', 'held', 'backoff', 'stopped'];

/** Everything that `/metrics` of a gateway shows; docs/operations.md says what each is good for. */
export const GATEWAY_METRICS: readonly Metric<GatewayReadings>[] = [
  gauge('holdfast_gateway_info', 'What runs here; always 1.', ({ gateway, version, spool }) => [
    [{ gateway, version, epoch: spool.epoch }, 1],
  ]),
  gauge('holdfast_gateway_state', '1 for the state that the gateway is in.', ({ state }) =>
    oneHot('state', STATES, state),
  ),

  gauge('holdfast_spool_rows', 'Messages that the cloud has not acknowledged yet.', ({ spool }) => spool.rows),
  gauge('holdfast_spool_bytes', 'Bytes of those messages.', ({ spool }) => spool.bytes),
  gauge('holdfast_spool_file_bytes', 'Size of the spool file.', ({ spool }) => spool.fileBytes),
  gauge('holdfast_spool_limit_bytes', 'spool.bytesMax.', ({ spool }) => spool.bytesMax),
  gauge('holdfast_spool_used_ratio', 'Share of the room for messages that is used, 0 to 1.', (s) => s.spool.usedShare),
  gauge('holdfast_spool_oldest_age_seconds', 'Age of the oldest message in the spool.', ({ spool }) =>
    seconds(spool.oldestAgeMs),
  ),
  gauge(
    'holdfast_spool_until_full_seconds',
    'Until nothing fits any more if the cloud went away now; absent while nothing comes in.',
    ({ spool }) => spool.secondsUntilFull,
  ),
  gauge('holdfast_spool_held_messages', 'Messages that wait, unacknowledged, for room.', (s) => s.spool.heldMessages),
  gauge('holdfast_spool_to_salvage', 'Seqs of a damaged file that are still to be read.', (s) => s.spool.toSalvage),
  gauge('holdfast_spool_writable', '1 while the spool takes messages.', ({ spool }) =>
    spool.state === 'open' ? 1 : 0,
  ),
  gauge('holdfast_spool_head_seq', 'Seq of the oldest message that is still there.', ({ spool }) => spool.head),
  gauge('holdfast_spool_tail_seq', 'Seq of the newest message.', ({ spool }) => spool.tail),
  {
    name: 'holdfast_disk_free_bytes',
    type: 'gauge',
    help: "Free space on the spool's device.",
    read: ({ diskFreeBytes }) => diskFreeBytes,
  },
  {
    name: 'holdfast_spool_enqueue_duration_seconds',
    type: 'histogram',
    help: 'From the arrival of a message until it is durable; a sample, about one message of each commit.',
    read: ({ timings }) => timings.enqueue,
  },

  counter(
    'holdfast_spool_received_total',
    'Messages made durable since the spool file was made.',
    (s) => s.spool.received,
  ),
  counter('holdfast_spool_acknowledged_total', 'Of those, acknowledged by the cloud.', (s) => s.spool.acknowledged),
  counter(
    'holdfast_spool_dropped_total',
    'Of those, given up because the spool was full; gap records say which.',
    (s) => s.spool.dropped,
  ),
  counter(
    'holdfast_spool_dead_total',
    'Of those, set aside because the cloud can never take them.',
    (s) => s.spool.dead,
  ),
  gauge(
    'holdfast_spool_balanced',
    '1 while received = rows + acknowledged + dropped + dead holds; 0 is a fault of the program.',
    ({ spool }) => (spool.balanced ? 1 : 0),
  ),

  gauge('holdfast_upstream_state', '1 for the state that the way to the cloud is in.', ({ upstream }) =>
    oneHot('state', UPSTREAM_STATES, upstream.state),
  ),
  gauge('holdfast_upstream_connected', '1 while the cloud answers.', ({ upstream }) =>
    upstream.state === 'online' ? 1 : 0,
  ),
  counter('holdfast_upstream_connects_total', 'Connections to the cloud.', ({ upstream }) => upstream.connects),
  gauge('holdfast_upstream_last_ack_timestamp_seconds', 'When the cloud last acknowledged a batch.', ({ upstream }) =>
    seconds(upstream.lastAckAt),
  ),
  gauge('holdfast_replay_batches_inflight', 'Batches sent and not acknowledged.', (s) => s.upstream.batchesInFlight),
  counter(
    'holdfast_replay_rows_sent_total',
    'Rows sent since the start, repetitions included.',
    (s) => s.upstream.rowsSent,
  ),
  counter('holdfast_replay_rows_acked_total', 'Rows acknowledged since the start.', (s) => s.upstream.rowsAcknowledged),
  counter('holdfast_replay_sent_bytes_total', 'Bytes of batches sent since the start.', (s) => s.upstream.bytesSent),
  gauge(
    'holdfast_drain_eta_seconds',
    'Until the spool is empty at present rates; absent when it does not shrink.',
    (s) => seconds(s.upstream.drainEtaMs),
  ),
  {
    name: 'holdfast_replay_ack_duration_seconds',
    type: 'histogram',
    help: 'From the sending of a batch until the cloud has acknowledged it.',
    read: ({ timings }) => timings.upstreamAck,
  },

  gauge('holdfast_broker_clients', 'Clients connected to the plant broker.', ({ broker }) => broker.clients),
  gauge('holdfast_broker_sessions', 'Sessions kept, connected or not.', ({ broker }) => broker.sessions),
  gauge('holdfast_broker_subscriptions', 'Subscriptions of all sessions.', ({ broker }) => broker.subscriptions),
  gauge('holdfast_broker_retained_messages', 'Retained messages.', ({ broker }) => broker.retained),
  gauge('holdfast_broker_retained_bytes', 'Bytes of retained messages.', ({ broker }) => broker.retainedBytes),
  gauge(
    'holdfast_broker_queued_messages',
    'Messages kept for sessions that are away.',
    ({ broker }) => broker.queuedRows,
  ),
  gauge(
    'holdfast_broker_paused_clients',
    'Publishers that are not read, because they are too far ahead.',
    (s) => s.broker.pausedClients,
  ),
  counter('holdfast_broker_publish_received_total', 'Messages from clients.', ({ broker }) => broker.received),
  counter('holdfast_broker_publish_sent_total', 'Messages to clients.', ({ broker }) => broker.sent),
  counter('holdfast_broker_auth_failures_total', 'Clients that were not let in.', ({ broker }) => broker.failedLogins),
  counter('holdfast_broker_dropped_total', 'Messages that did not reach a local subscriber, by reason.', ({ broker }) =>
    Object.entries(broker.dropped).map(([reason, count]) => [{ reason }, count] as const),
  ),

  gauge(
    'holdfast_device_up',
    '1 while the device answers.',
    perDevice(({ state }) => (state === 'offline' ? 0 : 1)),
  ),
  gauge('holdfast_device_last_good_timestamp_seconds', 'When the device last gave a good answer.', (status) =>
    perDevice(({ lastOkAt }) => seconds(lastOkAt))(status),
  ),
  gauge(
    'holdfast_device_rtt_p99_seconds',
    'Answer time of the device, 99th percentile of the last requests.',
    (status) => perDevice(({ rttMsP99 }) => seconds(rttMsP99))(status),
  ),
  counter(
    'holdfast_device_readings_total',
    'Readings taken.',
    perDevice(({ readings }) => readings),
  ),
  counter(
    'holdfast_device_timeouts_total',
    'Requests without an answer in time.',
    perDevice(({ timeouts }) => timeouts),
  ),
  counter(
    'holdfast_device_exceptions_total',
    'Requests that the device refused.',
    perDevice((r) => r.exceptions),
  ),
  counter(
    'holdfast_device_missed_cycles_total',
    'Poll cycles that were skipped.',
    perDevice((r) => r.missedCycles),
  ),
  counter(
    'holdfast_device_gaps_total',
    'Outages recorded as gaps.',
    perDevice(({ gaps }) => gaps),
  ),
];
