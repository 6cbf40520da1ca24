/** Everything that is about the broker as a whole. */
import type { Directive } from './conf-file.js';
import type { Notes, Outcome } from './notes.js';
import { last } from './sections.js';
import { lookUp, wholeNumber } from './values.js';

export interface GeneralDraft {
  readonly broker: Record<string, unknown>;
  readonly log: Record<string, unknown>;
}

/** What Mosquitto accepts where nothing is said has no bound up to 2.0, and this one from 2.1 on. */
const PACKET_BYTES_DEFAULT = 2_000_000;
const PACKET_BYTES_MAX = 2 ** 28 - 1;
/** Topic and header of a message, whose payload alone is bounded. */
const AROUND_PAYLOAD_BYTES = 66_000;
const EXPIRY_DAYS_MAX = 3650;
/** Of what fits on a disk. */
const QUEUE_BYTES_ANY = 2 ** 40;
const COUNT_MAX = 1_000_000_000;
const KEEPALIVE_S_MAX = 65_535;
const DAYS_OF: Readonly<Record<string, number>> = { h: 1 / 24, d: 1, w: 7, m: 30, y: 365 };

const TOPIC_BYTES_MAX = 65_535;
/** The most that can be set. */
const TOPIC_LEVELS_MAX = 100;
const TOPICS_MESSAGE = `broker.topicLevelsMax ${TOPIC_LEVELS_MAX}, Mosquitto takes 200; lower it with topicBytesMax to what the plant uses`;

const DURABLE = 'every message is on disk before it is acknowledged';
const SERVICE = 'the service manager does that';
const OTHERS: Readonly<Record<string, readonly [Outcome, string]>> = {
  allow_duplicate_messages: ['changed', 'a client gets one copy of a message'],
  autosave_interval: ['changed', DURABLE],
  autosave_on_changes: ['changed', DURABLE],
  bridge_require_ocsp: ['unsupported', 'certificates are not checked by OCSP'],
  clientid_prefixes: ['unsupported', 'client ids are bound to users instead'],
  check_retain_source: ['kept', 'the right of the publisher is always looked at'],
  connection_messages: ['changed', 'see log.level'],
  enable_control_api: ['unsupported', 'there are no $CONTROL topics'],
  include_dir: ['kept', 'its files are read'],
  log_dest: ['changed', `lines of JSON go to stderr; ${SERVICE}`],
  log_facility: ['changed', SERVICE],
  log_timestamp: ['changed', 'every line has its time'],
  log_timestamp_format: ['changed', 'times are ISO 8601'],
  max_inflight_bytes: ['unsupported', 'the messages in flight are bounded by their number'],
  max_inflight_messages: ['changed', 'up to 1000, or as few as the client asks for; their order is kept in any case'],
  max_topic_alias: ['changed', 'topic aliases have fixed limits'],
  memory_limit: ['changed', 'what waits is on disk'],
  packet_buffer_size: ['changed', 'not needed'],
  per_listener_settings: ['kept', 'see the listeners'],
  persistence: ['changed', `${DURABLE}; retained messages and sessions of mosquitto.db are not taken over`],
  persistence_file: ['changed', 'see spool.path'],
  persistence_location: ['changed', 'see gateway.dataDir'],
  pid_file: ['changed', SERVICE],
  retained_persistence: ['changed', DURABLE],
  retain_expiry_interval: ['unsupported', 'retained messages end by their own expiry only'],
  retry_interval: ['kept', 'Mosquitto does not use it either'],
  set_tcp_nodelay: ['kept', 'is always so'],
  sys_interval: ['changed', '$SYS topics are published every 10 seconds'],
  user: ['changed', SERVICE],
  websockets_headers_size: ['changed', 'not needed'],
  websockets_log_level: ['changed', 'see log.level'],
  websockets_origin: ['unsupported', 'belongs to a listener, see origins'],
};
/** What has no counterpart but was not asked for either. */
const UNSUPPORTED_IF: Readonly<Record<string, readonly [value: string, reason: string]>> = {
  queue_qos0_messages: ['true', 'QoS 0 is not kept for clients that are away'],
  retain_available: ['false', 'retained messages are always there'],
  upgrade_outgoing_qos: ['true', 'a message keeps its QoS'],
};
const SECURITY = /^(acl_file|password_file|psk_file|allow_|auto_id|auth_|plugin|global_plugin)/;

export function draftGeneral(lines: readonly Directive[], notes: Notes): GeneralDraft {
  for (const line of lines) {
    const other = lookUp(OTHERS, line.name);
    const [value, reason] = lookUp(UNSUPPORTED_IF, line.name) ?? [];
    if (other && !(line.value === 'false' && other[0] === 'unsupported')) notes.add(other[0], line, other[1]);
    else if (other) notes.kept(line, 'is so');
    else if (reason !== undefined && line.value === value) notes.unsupported(line, reason);
    else if (reason !== undefined) notes.kept(line, 'is so');
    else if (!SECURITY.test(line.name) && !lookUp(LIMITS, line.name) && line.name !== 'log_type')
      notes.unsupported(line, 'is no setting that Mosquitto 2 knows here');
  }
  const broker: Record<string, unknown> = {};
  for (const [name, limit] of Object.entries(LIMITS)) {
    const line = last(lines, name);
    const entry = line && limit(line.value);
    if (line && !entry) notes.unsupported(line, 'is no value that Mosquitto knows');
    else if (line && entry) {
      const [key, value, outcome, message] = entry;
      // The first one says more: a bound for packets is one for payloads too.
      if (key in broker) notes.changed(line, `broker.${key} is ${broker[key]}`);
      else {
        broker[key] = value;
        notes.add(outcome, line, message ?? `broker.${key} ${value}`);
      }
    }
  }
  if (!('packetBytesMax' in broker)) {
    broker.packetBytesMax = `${PACKET_BYTES_DEFAULT}B`;
    notes.byDefault(
      'max_packet_size',
      `broker.packetBytesMax ${PACKET_BYTES_DEFAULT}B; Mosquitto up to 2.0 takes any size`,
    );
  }
  // Mosquitto allows what the protocol and its matcher do: 65,535 bytes and 200 levels.
  broker.topicBytesMax = `${TOPIC_BYTES_MAX}B`;
  broker.topicLevelsMax = TOPIC_LEVELS_MAX;
  notes.byDefault('limit of topics', TOPICS_MESSAGE);
  if (!('sessionExpiryMax' in broker)) broker.sessionExpiryMax = `${EXPIRY_DAYS_MAX}d`;
  return { broker, log: logOf(lines, notes) };
}

type Limit = (value: string) => readonly [key: string, value: unknown, Outcome, message?: string] | undefined;

const LIMITS: Readonly<Record<string, Limit>> = {
  max_packet_size: (value) => bytes(value, 0, 'kept'),
  message_size_limit: (value) => bytes(value, AROUND_PAYLOAD_BYTES, 'changed'),
  max_queued_messages: (value) => {
    const count = wholeNumber(value);
    return count === undefined
      ? undefined
      : ['sessionQueueMax', count === 0 ? COUNT_MAX : Math.min(count, COUNT_MAX), 'kept'];
  },
  max_queued_bytes: (value) => {
    const count = wholeNumber(value);
    if (count === undefined) return undefined;
    return ['sessionQueueBytesMax', `${count === 0 ? QUEUE_BYTES_ANY : count}B`, 'kept'];
  },
  persistent_client_expiration: (value) => {
    const [, count, unit = ''] = /^(\d{1,6})([hdwmy])$/.exec(value) ?? [];
    const hours = Math.round(Number(count) * (lookUp(DAYS_OF, unit) ?? 0) * 24);
    return hours > 0 ? ['sessionExpiryMax', `${Math.min(hours, EXPIRY_DAYS_MAX * 24)}h`, 'kept'] : undefined;
  },
  max_keepalive: (value) => {
    const seconds = wholeNumber(value);
    if (seconds === undefined || seconds > KEEPALIVE_S_MAX) return undefined;
    return [
      'keepaliveMax',
      `${seconds}s`,
      'changed',
      `broker.keepaliveMax ${seconds}s; clients of MQTT 5 are told, others keep theirs`,
    ];
  },
  global_max_clients: (value) => {
    const count = wholeNumber(value);
    return count ? ['sessionsMax', Math.min(count, COUNT_MAX), 'kept'] : undefined;
  },
};

function bytes(value: string, around: number, outcome: Outcome) {
  const count = wholeNumber(value);
  if (count === undefined) return undefined;
  const limit = count === 0 ? PACKET_BYTES_MAX : Math.min(PACKET_BYTES_MAX, Math.max(1024, count + around));
  const message = around > 0 ? 'a larger message ends its connection, it is not dropped and acknowledged' : undefined;
  return ['packetBytesMax', `${limit}B`, outcome, message] as const;
}

function logOf(lines: readonly Directive[], notes: Notes): Record<string, unknown> {
  const types = lines.filter(({ name }) => name === 'log_type');
  const has = (...values: string[]) => types.some(({ value }) => values.includes(value));
  if (types.length === 0) return {};
  const level = has('debug', 'all')
    ? 'debug'
    : has('information', 'notice', 'subscribe', 'unsubscribe')
      ? 'info'
      : has('warning')
        ? 'warn'
        : has('error')
          ? 'error'
          : 'silent';
  for (const line of types) notes.kept(line, `log.level ${level}`);
  return { level };
}
