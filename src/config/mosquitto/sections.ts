/** Which part of Mosquitto a line is about. A name says that by itself, whatever section it stands in. */
import type { Directive } from './conf-file.js';

export interface Section {
  /** The line that opens it; null for the default listener, which none does. */
  readonly opening: Directive | null;
  readonly lines: readonly Directive[];
}

export interface Sections {
  readonly general: readonly Directive[];
  readonly listeners: readonly Section[];
  readonly bridges: readonly Section[];
  readonly perListener: boolean;
}

const LISTENER = new Set(
  `accept_protocol_versions bind_interface cafile capath certfile ciphers ciphers_tls1.3 crlfile dhparamfile
  disable_client_cert_date_checks enable_proxy_protocol http_dir keyfile listener_allow_anonymous
  listener_auto_id_prefix max_connections max_qos max_topic_alias max_topic_alias_broker maximum_qos mount_point protocol
  proxy_protocol_v2_require_tls psk_hint require_certificate socket_domain tls_engine tls_engine_kpass_sha1 tls_keyform
  tls_version use_identity_as_username use_subject_as_username use_username_as_clientid websockets_origin
  port bind_address`.split(/\s+/),
);
/** With `per_listener_settings` these belong to the listener above them. */
const SECURITY =
  /^(acl_file|password_file|psk_file|allow_anonymous|allow_zero_length_clientid|auto_id_prefix|auth_.*|plugin.*)$/;
const BRIDGE = new Set(
  `address addresses cleansession clientid idle_timeout keepalive_interval local_cleansession local_clientid local_password
  local_username notification_topic notifications notifications_local_only password remote_clientid remote_password
  remote_username restart_timeout round_robin start_type threshold topic try_private username`.split(/\s+/),
);

export function sort(directives: readonly Directive[]): Sections {
  const general: Directive[] = [];
  const implied: { opening: null; lines: Directive[] } = { opening: null, lines: [] };
  const listeners: { opening: Directive | null; lines: Directive[] }[] = [implied];
  const bridges: { opening: Directive; lines: Directive[] }[] = [];
  const perListener = directives.findLast(({ name }) => name === 'per_listener_settings')?.value === 'true';
  for (const directive of directives) {
    const { name } = directive;
    if (name === 'listener') listeners.push({ opening: directive, lines: [] });
    else if (name === 'connection') bridges.push({ opening: directive, lines: [] });
    else if (LISTENER.has(name) || (perListener && SECURITY.test(name))) listeners.at(-1)?.lines.push(directive);
    else if (bridges.length > 0 && (BRIDGE.has(name) || name.startsWith('bridge_')))
      bridges.at(-1)?.lines.push(directive);
    else general.push(directive);
  }
  // Mosquitto opens its default listener when nothing else is there, or when its port or address is named.
  const isNamed = implied.lines.some(({ name }) => name === 'port' || name === 'bind_address');
  if (listeners.length > 1 && !isNamed) {
    listeners.shift();
    general.push(...implied.lines);
  }
  return { general, listeners, bridges, perListener };
}

/** The last line with this name wins. */
export function last(lines: readonly Directive[], name: string): Directive | undefined {
  return lines.findLast((line) => line.name === name);
}

export function isTrue(directive: Directive | undefined): boolean {
  return directive?.value === 'true';
}
