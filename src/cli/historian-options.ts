import type { IngestConfig } from '../config/ingest-schema.js';
import { readSecret } from '../config/secret.js';
import type { HistorianOptions } from '../ingest/open-historian.js';
import { assert } from '../lib/assert.js';

/** The historian of an ingest's config, for everything that opens it. */
export function historianOptions({
  type,
  path,
  url,
  ownerUrl,
  tls,
  connections,
  futureMax,
  rawHorizon,
}: IngestConfig['historian']): HistorianOptions {
  const common = { futureMaxMs: futureMax, ...(rawHorizon !== undefined && { rawHorizonMs: rawHorizon }) };
  if (type === 'postgres') {
    assert(url, 'a config of type postgres has a url');
    const owner = ownerUrl && { ownerUrl: readSecret(ownerUrl) };
    return { type, url: readSecret(url), ...owner, connections, ...common, ...(tls && { tls }) };
  }
  assert(path !== undefined, 'a config of type sqlite has a path');
  return { type, path, ...common };
}
