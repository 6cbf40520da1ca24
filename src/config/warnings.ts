import { statSync } from 'node:fs';
import { endpointOf, isLoopback } from './address.js';
import type { Connection } from './connection-schema.js';
import type { GatewayConfig } from './gateway-schema.js';
import type { IngestConfig } from './ingest-schema.js';
import type { ReaderConfig } from './reader-schema.js';
import type { Secret } from './secret.js';
import type { Path } from './source.js';
import { covers } from './topics.js';

export interface Warning {
  readonly path: Path;
  readonly message: string;
}

/** Read permission for anybody but the owner. */
const READABLE_BY_OTHERS = 0o044;

/** What a gateway's operator should know before go-live, although it works. */
export function* gatewayWarnings(config: GatewayConfig): Generator<Warning> {
  yield* accessWarnings(config.broker);
  if (config.broker.whenFull === 'refuse')
    yield {
      path: ['broker', 'whenFull'],
      message: 'most clients of MQTT 5 count a refused message as sent and drop it; stall loses nothing',
    };
  yield* connectionWarnings('upstream', config.upstream);
  yield* commandWarnings(config);
  yield* readerWarnings(config.readers, config.bridge.topics);
}

function* accessWarnings({ listeners, passwordFile, aclFile }: GatewayConfig['broker']): Generator<Warning> {
  let hasUsers = passwordFile !== undefined;
  for (const [index, { url, anonymous, tls }] of listeners.entries()) {
    const { scheme, host } = endpointOf(url);
    const at = (key: string) => ['broker', 'listeners', index, key];
    hasUsers ||= tls?.userFromCertificate === true;
    if (anonymous && tls?.userFromCertificate)
      yield { path: at('anonymous'), message: 'has no effect where certificates name the users' };
    else if (anonymous && !isLoopback(host)) {
      const may = aclFile
        ? 'may do without a password what the ACL file says'
        : 'may publish and subscribe without a password';
      yield { path: at('anonymous'), message: `anybody who reaches ${host} ${may}` };
    } else if (!anonymous && !passwordFile && !tls?.userFromCertificate)
      yield { path: at('url'), message: 'lets nobody in: without anonymous: true there is no way to log in' };
    if (passwordFile && !tls && !isLoopback(host))
      yield { path: at('url'), message: `passwords travel unencrypted; use ${scheme}s://` };
  }
  if (aclFile && !hasUsers && listeners.length > 0)
    yield {
      path: ['broker', 'aclFile'],
      message: 'its user sections never apply: without passwordFile nobody has a proven name',
    };
}

/** The same for an ingest. */
export function* ingestWarnings({ ingest, source }: IngestConfig): Generator<Warning> {
  if (source) yield* connectionWarnings('source', source);
  const { http } = ingest;
  if (!http || isLoopback(endpointOf(http.listen).host)) return;
  if (http.anonymous)
    yield { path: ['ingest', 'http', 'anonymous'], message: 'anybody who reaches the endpoint may write readings' };
  if (http.tokens && !http.tls)
    yield { path: ['ingest', 'http', 'listen'], message: 'tokens travel unencrypted unless a proxy adds TLS; see tls' };
}

/** A password or readings that anybody on the way can read. */
export function* connectionWarnings(
  key: string,
  { url, password, token }: Connection & { readonly token?: Secret | undefined },
): Generator<Warning> {
  const { scheme, host } = endpointOf(url);
  if (token && scheme === 'http' && !isLoopback(host))
    yield { path: [key, 'url'], message: 'the token travels unencrypted; use https://' };
  if (password && (scheme === 'mqtt' || scheme === 'ws') && !isLoopback(host))
    yield { path: [key, 'url'], message: `the password travels unencrypted; use ${scheme}s://` };
}

/** Secrets written out in a file that others may read. */
export function* secretWarnings(file: string, literals: readonly Path[]): Generator<Warning> {
  if (literals.length === 0 || process.platform === 'win32') return;
  const mode = statSync(file).mode & 0o777;
  if ((mode & READABLE_BY_OTHERS) === 0) return;
  for (const path of literals)
    yield {
      path,
      message: `the file may be read by others (mode ${mode.toString(8)}); use {file: ...} or {credential: ...}, or chmod 600`,
    };
}

/** A machine that moves because somebody in the network published a number. */
function* commandWarnings({ broker, readers }: GatewayConfig): Generator<Warning> {
  const open = broker.listeners.find(({ url, anonymous }) => anonymous && !isLoopback(endpointOf(url).host));
  for (const [index, { commands }] of readers.entries())
    if (commands && open)
      yield {
        path: ['readers', index, 'commands'],
        message: `anybody who reaches ${endpointOf(open.url).host} may write to these devices without a password`,
      };
}

function* readerWarnings(readers: readonly ReaderConfig[], filters: readonly string[]): Generator<Warning> {
  for (const [index, { url, topic, devices }] of readers.entries()) {
    const twin = readers.slice(0, index).findIndex((other) => other.url === url);
    if (twin >= 0)
      yield {
        path: ['readers', index, 'url'],
        message: `the same link as readers.${twin}; put the devices together, many PLCs take one connection only`,
      };
    const local = topicsOf(topic, devices).filter((name) => !filters.some((filter) => covers(filter, name)));
    if (local.length > 0)
      yield {
        path: ['readers', index, 'topic'],
        message: `not covered by bridge.topics, so these readings stay local: ${examples(local)}`,
      };
  }
}

function topicsOf(template: string, devices: ReaderConfig['devices']): string[] {
  return devices.flatMap(({ asset, labels, groups }) =>
    groups.flatMap(({ tags }) =>
      tags.map(({ name }) => {
        const values: Readonly<Record<string, string>> = { ...labels, asset, metric: name };
        return template.replaceAll(/\{(\w+)\}/g, (field, key: string) => values[key] ?? field);
      }),
    ),
  );
}

function examples(topics: readonly string[]): string {
  return topics.length === 1 ? `${topics[0]}` : `${topics[0]} and ${topics.length - 1} more`;
}
