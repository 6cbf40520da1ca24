/** A `connection` section becomes the upstream: the same broker and credentials, but batches and one direction. */
import type { Directive } from './conf-file.js';
import type { Notes, Outcome } from './notes.js';
import { isTrue, last, type Section } from './sections.js';
import { literal, lookUp, pathOf, urlOf, wholeNumber } from './values.js';

export interface BridgeDraft {
  readonly topics: readonly string[];
  readonly upstream: Record<string, unknown>;
}

const PORT_DEFAULT = 1883;
/** Mosquitto's, for both versions of the protocol. */
const VERSIONS: Readonly<Record<string, number>> = { mqttv311: 4, mqttv50: 5 };

const OTHERS: Readonly<Record<string, readonly [Outcome, string]>> = {
  bridge_alpn: ['unsupported', 'no protocol is negotiated in TLS'],
  bridge_attempt_unsubscribe: ['kept', 'nothing is subscribed to in the cloud'],
  bridge_bind_address: ['unsupported', 'the system chooses the address'],
  bridge_capath: ['unsupported', 'authorities are read from one file; put them together in a bridge_cafile'],
  bridge_ciphers: ['unsupported', "the ciphers are Node's defaults"],
  'bridge_ciphers_tls1.3': ['unsupported', "the ciphers are Node's defaults"],
  bridge_identity: ['unsupported', 'there are no pre-shared keys'],
  bridge_insecure: ['unsupported', "the server's name is always checked; upstream.tls.servername can give another one"],
  bridge_max_packet_size: ['changed', 'see upstream.batchBytesMax'],
  bridge_max_topic_alias: ['changed', 'batches go to one topic'],
  bridge_outgoing_retain: ['changed', 'retain does not travel with a reading'],
  bridge_psk: ['unsupported', 'there are no pre-shared keys'],
  bridge_receive_maximum: ['changed', 'nothing is received'],
  bridge_reload_type: ['changed', 'a changed upstream needs a restart'],
  bridge_require_ocsp: ['unsupported', 'certificates are not checked by OCSP'],
  bridge_session_expiry_interval: ['changed', 'the spool keeps what is not acknowledged'],
  bridge_tcp_keepalive: ['changed', "MQTT's keepalive finds a dead connection"],
  bridge_tcp_user_timeout: ['changed', 'see upstream.ackTimeout'],
  cleansession: ['changed', 'the spool keeps what the cloud has not acknowledged, whatever its session'],
  idle_timeout: ['unsupported', 'the connection is always kept'],
  local_cleansession: ['changed', 'the spool is no client of the broker'],
  local_clientid: ['changed', 'the spool is no client of the broker'],
  local_password: ['changed', 'the spool is no client of the broker'],
  local_username: ['changed', 'the spool is no client of the broker'],
  round_robin: ['unsupported', 'there is one upstream'],
  threshold: ['unsupported', 'see upstream.linger'],
};

/** Undefined when there is nothing to connect to. */
export function draftBridge({ opening, lines }: Section, notes: Notes): BridgeDraft | undefined {
  const at = opening as Directive;
  const server = serverOf(lines, notes);
  if (!server) {
    notes.unsupported(at, 'the connection has no address');
    return undefined;
  }
  notes.changed(
    at,
    'is the upstream: messages travel in acknowledged batches to upstream.topic, not in topics of their own; holdfast ingest unpacks them',
  );
  for (const line of lines) {
    const other = lookUp(OTHERS, line.name);
    if (other && !(line.value === 'false' && other[0] === 'unsupported')) notes.add(other[0], line, other[1]);
    else if (other) notes.kept(line, 'is so');
  }
  return {
    topics: topicsOf(lines, notes),
    upstream: { ...server, ...identityOf(lines, notes), ...timesOf(lines, notes) },
  };
}

function serverOf(lines: readonly Directive[], notes: Notes): Record<string, unknown> | undefined {
  const line = last(lines, 'address') ?? last(lines, 'addresses');
  const [first, ...others] = line?.value.split(/ +/) ?? [];
  if (!line || !first) return undefined;
  const [, host = '', port = `${PORT_DEFAULT}`] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(first) ?? [];
  const [ca, cert, key] = ['bridge_cafile', 'bridge_certfile', 'bridge_keyfile'].map((name) => last(lines, name));
  const system = last(lines, 'bridge_tls_use_os_certs');
  const secure = ca !== undefined || isTrue(system) || last(lines, 'bridge_capath') !== undefined;
  const url = urlOf(secure ? 'mqtts' : 'mqtt', host.replace(/^\[|\]$/g, ''), wholeNumber(port) ?? PORT_DEFAULT);
  if (others.length > 0) notes.unsupported(line, `there is one upstream: ${url}`);
  else notes.kept(line, url);
  for (const file of [ca, cert, key]) if (file) notes.kept(file, 'stays where it is');
  if (system) notes.kept(system, isTrue(system) ? "the system's authorities are trusted" : 'is so');
  const oldest = last(lines, 'bridge_tls_version');
  if (oldest) notes.changed(oldest, 'TLS 1.2 or newer');
  const tls = {
    ...(ca && !isTrue(system) ? { ca: pathOf(ca) } : {}),
    ...(cert && key ? { cert: pathOf(cert), key: pathOf(key) } : {}),
  };
  return { url: literal(url), ...(secure && Object.keys(tls).length > 0 ? { tls } : {}) };
}

function identityOf(lines: readonly Directive[], notes: Notes): Record<string, unknown> {
  const either = (...names: string[]) => names.map((name) => last(lines, name)).find((line) => line !== undefined);
  const clientId = either('remote_clientid', 'clientid');
  const username = either('remote_username', 'username');
  const password = either('remote_password', 'password');
  const version = last(lines, 'bridge_protocol_version');
  const protocolVersion = lookUp(VERSIONS, version?.value ?? 'mqttv311') ?? 4;
  if (version && lookUp(VERSIONS, version.value)) notes.kept(version, `protocolVersion ${protocolVersion}`);
  else if (version) notes.changed(version, 'MQTT 3.1.1');
  if (clientId) notes.kept(clientId, 'upstream.clientId');
  else
    notes.byDefault(
      'remote_clientid',
      'the client id in the cloud is holdfast- and the id of the gateway, not NAME.HOST',
    );
  if (username) notes.kept(username, 'upstream.username');
  if (password && username) notes.kept(password, 'upstream.password; better as {file: ...}');
  else if (password) notes.unsupported(password, 'needs remote_username');
  return {
    protocolVersion,
    ...(clientId ? { clientId: literal(clientId.value) } : {}),
    ...(username ? { username: literal(username.value) } : {}),
    ...(username && password ? { password: literal(password.value) } : {}),
  };
}

function timesOf(lines: readonly Directive[], notes: Notes): Record<string, unknown> {
  const times: Record<string, unknown> = {};
  const keepalive = last(lines, 'keepalive_interval');
  const seconds = wholeNumber(keepalive?.value ?? '');
  if (keepalive && seconds) {
    times.keepalive = `${Math.min(65_535, Math.max(5, seconds))}s`;
    notes.kept(keepalive, 'upstream.keepalive');
  } else if (keepalive) notes.unsupported(keepalive, 'expected seconds');
  const restart = last(lines, 'restart_timeout');
  const [base, cap = base] = restart?.value.split(/ +/).map(wholeNumber) ?? [];
  if (restart && base && cap && cap >= base) {
    times.backoff = { min: `${base}s`, max: `${cap}s` };
    notes.kept(restart, 'upstream.backoff');
  } else if (restart) notes.unsupported(restart, 'expected one or two numbers of seconds');
  const start = last(lines, 'start_type');
  if (start?.value === 'automatic') notes.kept(start, 'is so');
  else if (start) notes.unsupported(start, 'the upstream is always connected');
  const asBridge = last(lines, 'try_private');
  if (asBridge) notes.add(isTrue(asBridge) ? 'changed' : 'kept', asBridge, 'the cloud sees an ordinary client');
  const notices = lines.filter(({ name }) => name.startsWith('notification'));
  for (const line of notices)
    if (line.name === 'notifications' && line.value === 'false') notes.kept(line, 'is so');
    else notes.changed(line, 'the state of the link is in the status page and metrics, not in a topic of the cloud');
  if (!last(notices, 'notifications'))
    notes.byDefault(
      'notifications',
      'the state of the link is in the status page and metrics, not in a topic of the cloud',
    );
  return times;
}

/** The plant's topics that go out. */
function topicsOf(lines: readonly Directive[], notes: Notes): string[] {
  const filters = new Set<string>();
  for (const line of lines.filter(({ name }) => name === 'topic')) {
    const parts = [...line.value.matchAll(/"([^"]*)"|([^ ]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
    const [pattern = '', direction = 'out', qos = '0', localPrefix = '', remotePrefix = ''] = parts;
    const filter = `${localPrefix}${pattern}`;
    const toCloud = direction.toLowerCase() !== 'in';
    if (!toCloud) notes.unsupported(line, 'nothing comes from the cloud into the plant');
    else if (filter === '' || filter.startsWith('$')) notes.unsupported(line, 'only topics of the plant go out');
    else {
      filters.add(filter);
      const changes = [
        remotePrefix === localPrefix ? '' : 'topics keep the name that they have in the plant',
        qos === '0' ? 'is acknowledged, as QoS 1' : '',
      ].filter((text) => text !== '');
      if (direction.toLowerCase() === 'both')
        notes.unsupported(line, `goes out as ${filter}; nothing comes from the cloud into the plant`);
      else if (changes.length > 0) notes.changed(line, [`bridge.topics ${filter}`, ...changes].join('; '));
      else notes.kept(line, `bridge.topics ${filter}`);
    }
  }
  return [...filters].map(literal);
}
