import type { IngestConfig } from '../config/ingest-schema.js';
import { readSecret } from '../config/secret.js';
import type { SubscriberOptions } from '../ingest/subscriber.js';

/** The broker of an ingest's config, for everything that connects to it. */
export function brokerOf(source: NonNullable<IngestConfig['source']>): SubscriberOptions {
  return {
    url: source.url,
    protocolVersion: source.protocolVersion,
    clientId: source.clientId,
    ...(source.username === undefined ? {} : { username: source.username }),
    ...(source.password === undefined ? {} : { password: readSecret(source.password) }),
    ...(source.tls === undefined ? {} : { tls: source.tls }),
    topics: [source.topic],
    sessionExpiryS: Math.round(source.sessionExpiry / 1000),
    connectTimeoutMs: source.connectTimeout,
    keepaliveS: Math.max(1, Math.round(source.keepalive / 1000)),
    backoff: { minMs: source.backoff.min, maxMs: source.backoff.max },
  };
}
