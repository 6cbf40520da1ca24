/** Listener sections. A listener that would be more open here than it was there is left out, and that is said. */
import type { Directive } from './conf-file.js';
import type { Notes } from './notes.js';
import { isTrue, last, type Section } from './sections.js';
import { literal, lookUp, pathOf, urlOf, wholeNumber } from './values.js';

export interface ListenerDraft {
  url: string;
  anonymous?: boolean;
  tls?: Record<string, string | boolean>;
  origins?: readonly string[];
}

const PORT_DEFAULT = 1883;
const PROTOCOLS: Readonly<Record<string, string>> = { mqtt: 'mqtt', websockets: 'ws' };
const TLS_VERSIONS: Readonly<Record<string, string>> = { 'tlsv1.3': 'TLSv1.3', 'tlsv1.2': 'TLSv1.2' };

/** Lines with a meaning that does not fit the rest of a listener; without it the listener would let in more. */
const CLOSING: Readonly<Record<string, string>> = {
  mount_point: 'there is no prefix for the topics of a listener',
  psk_hint: 'there are no pre-shared keys; give clients certificates',
  enable_proxy_protocol: 'there is no PROXY protocol',
};

const OTHERS: Readonly<Record<string, readonly ['kept' | 'changed' | 'unsupported', string]>> = {
  accept_protocol_versions: ['unsupported', 'versions 3.1, 3.1.1 and 5 are always accepted'],
  ciphers: ['unsupported', "the ciphers are Node's defaults"],
  'ciphers_tls1.3': ['unsupported', "the ciphers are Node's defaults"],
  dhparamfile: ['changed', 'not needed: keys are agreed on elliptic curves'],
  disable_client_cert_date_checks: ['unsupported', 'certificates that have ended are always refused'],
  http_dir: ['unsupported', 'a WebSocket listener serves no files'],
  listener_auto_id_prefix: ['changed', 'client ids that the broker gives begin with holdfast-'],
  max_connections: ['unsupported', 'connections are limited for the whole broker only'],
  max_qos: ['unsupported', 'QoS 0, 1 and 2 are always there'],
  max_topic_alias: ['changed', 'topic aliases have fixed limits'],
  max_topic_alias_broker: ['changed', 'topic aliases have fixed limits'],
  maximum_qos: ['unsupported', 'QoS 0, 1 and 2 are always there'],
  proxy_protocol_v2_require_tls: ['unsupported', 'there is no PROXY protocol'],
  tls_engine: ['unsupported', 'keys are read from files'],
  tls_engine_kpass_sha1: ['unsupported', 'keys are read from files'],
  tls_keyform: ['unsupported', 'keys are read from files'],
  use_username_as_clientid: ['unsupported', 'client ids stay; a session belongs to its user in any case'],
};

/** Undefined: left out. */
export function draftListener({ opening, lines }: Section, notes: Notes): ListenerDraft | undefined {
  const at = opening ?? last(lines, 'port') ?? last(lines, 'bind_address');
  const address = addressOf(opening, lines, notes);
  const allowed = last(lines, 'listener_allow_anonymous');
  if (allowed) notes.kept(allowed, `anonymous: ${isTrue(allowed)}`);
  const closing = lines.find(
    ({ name, value }) => lookUp(CLOSING, name) !== undefined && value !== 'false' && value !== '',
  );
  if (closing) notes.unsupported(closing, `${CLOSING[closing.name]}; this listener is left out`);
  for (const line of lines) {
    const other = lookUp(OTHERS, line.name);
    if (other && !(line.value === 'false' && other[0] === 'unsupported'))
      notes.add(...([other[0], line, other[1]] as const));
    else if (other) notes.kept(line, 'is so');
  }
  const scheme = schemeOf(lines, notes);
  const tls = tlsOf(lines, notes);
  const origins = originsOf(lines, scheme, notes);
  if (!address || !scheme || tls === null || closing) {
    if (at) notes.unsupported(at, 'this listener is left out');
    return undefined;
  }
  const url = urlOf(tls ? `${scheme}s` : scheme, address.host, address.port);
  if (at) notes.add(address.note ? 'changed' : 'kept', at, `${url}${address.note}`);
  return { url: literal(url), ...(tls ? { tls } : {}), ...(origins ? { origins } : {}) };
}

function addressOf(opening: Directive | null, lines: readonly Directive[], notes: Notes) {
  const [portText = '', ...hostParts] = (opening?.value ?? last(lines, 'port')?.value ?? `${PORT_DEFAULT}`).split(/ +/);
  const port = wholeNumber(portText);
  const named = opening ? hostParts.join(' ') : (last(lines, 'bind_address')?.value ?? '');
  const wildcard = last(lines, 'socket_domain')?.value === 'ipv6' ? '::' : '0.0.0.0';
  for (const line of lines.filter(({ name }) => name === 'socket_domain')) notes.kept(line, `listens on ${wildcard}`);
  if (port === undefined || port > 65_535 || (port === 0 && named.startsWith('/'))) {
    if (opening) notes.unsupported(opening, port === 0 ? 'there are no Unix sockets' : 'the port is no number');
    return undefined;
  }
  const interfaceLine = last(lines, 'bind_interface');
  if (interfaceLine) {
    notes.unsupported(interfaceLine, 'listens on 127.0.0.1 instead; put the address of the interface into the url');
    return { host: '127.0.0.1', port, note: '' };
  }
  // Nothing at all: Mosquitto listens for its own machine only.
  if (!opening && lines.every(({ name }) => name !== 'port' && name !== 'bind_address'))
    return { host: '127.0.0.1', port, note: '' };
  if (named !== '') return { host: named, port, note: '' };
  return { host: wildcard, port, note: wildcard === '::' ? '' : ', IPv4 only; [::] is for both' };
}

function schemeOf(lines: readonly Directive[], notes: Notes): string | undefined {
  const line = last(lines, 'protocol');
  if (!line) return 'mqtt';
  const scheme = lookUp(PROTOCOLS, line.value);
  if (scheme === 'ws' && !last(lines, 'websockets_origin'))
    notes.changed(line, 'ws://; of web pages only those of the same host may connect, see origins');
  else if (scheme) notes.kept(line, `${scheme}://`);
  else notes.unsupported(line, 'only mqtt and websockets can be listened for');
  return scheme;
}

function originsOf(lines: readonly Directive[], scheme: string | undefined, notes: Notes): string[] | undefined {
  const named = lines.filter(({ name, value }) => name === 'websockets_origin' && value !== '');
  for (const line of named) {
    if (scheme === 'ws') notes.kept(line, 'origins');
    else notes.unsupported(line, 'has an effect with protocol websockets only');
  }
  return scheme === 'ws' && named.length > 0 ? named.map(({ value }) => literal(value)) : undefined;
}

/** Null: the listener cannot be as safe as it was. */
function tlsOf(lines: readonly Directive[], notes: Notes): ListenerDraft['tls'] | null {
  const [cert, key, ca, crl] = ['certfile', 'keyfile', 'cafile', 'crlfile'].map((name) => last(lines, name));
  const required = last(lines, 'require_certificate');
  const { identity, isSubject } = identityOf(lines, notes);
  const version = last(lines, 'tls_version');
  const minVersion = lookUp(TLS_VERSIONS, version?.value ?? '');
  if (version && minVersion) notes.kept(version, `minVersion ${minVersion}`);
  else if (version) notes.changed(version, 'TLS 1.2 is the oldest that is accepted');
  if (!cert || !key) {
    for (const line of [cert, key, required, identity, crl])
      if (line && line.value !== 'false') notes.unsupported(line, 'needs certfile and keyfile');
    return required || identity || cert || key ? null : undefined;
  }
  for (const line of [cert, key]) notes.kept(line, 'stays where it is');
  const folder = last(lines, 'capath');
  if (folder && !isTrue(required)) notes.kept(folder, 'not needed: no client certificates are asked for');
  else if (folder) notes.unsupported(folder, 'authorities are read from one file; put them together in a cafile');
  const tls = { cert: pathOf(cert), key: pathOf(key), ...(minVersion === 'TLSv1.3' ? { minVersion } : {}) };
  if (!isTrue(required)) {
    if (ca) notes.kept(ca, 'not needed: no client certificates are asked for');
    if (crl) notes.kept(crl, 'not needed: no client certificates are asked for');
    if (required) notes.kept(required, 'is so');
    if (!identity) return tls;
    notes.unsupported(identity, 'needs require_certificate');
    return null;
  }
  if (!ca) {
    notes.unsupported(required as Directive, 'needs a cafile');
    return null;
  }
  for (const line of [ca, crl]) if (line) notes.kept(line, 'stays where it is');
  notes.kept(required as Directive, 'tls.requireCertificate');
  if (identity) notes.kept(identity, `tls.userFromCertificate${isSubject ? ', certificateName: subject' : ''}`);
  return {
    ...tls,
    ca: pathOf(ca),
    ...(crl ? { crl: pathOf(crl) } : {}),
    requireCertificate: true,
    ...(identity ? { userFromCertificate: true } : {}),
    ...(isSubject ? { certificateName: 'subject' } : {}),
  };
}

/** The line by which a certificate names the user. Of two, Mosquitto follows the one for the common name. */
function identityOf(lines: readonly Directive[], notes: Notes) {
  const [common, subject] = ['use_identity_as_username', 'use_subject_as_username'].map((name) => last(lines, name));
  for (const line of [common, subject]) if (line && !isTrue(line)) notes.kept(line, 'is so');
  if (!isTrue(common)) return { identity: isTrue(subject) ? subject : undefined, isSubject: isTrue(subject) };
  if (isTrue(subject)) notes.changed(subject as Directive, 'has no effect beside use_identity_as_username');
  return { identity: common, isSubject: false };
}
