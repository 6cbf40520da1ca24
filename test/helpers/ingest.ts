import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Ingest, type IngestOptions } from '../../src/ingest/ingest.js';
import type { SqliteHistorianOptions } from '../../src/ingest/sqlite-historian.js';
import type { SubscriberOptions } from '../../src/ingest/subscriber.js';
import { silentLog } from '../../src/lib/log.js';
import { stoppedClock } from './historian.js';
import { tempDir } from './tmp.js';

export const TOPIC = 'edge/line-1/batch';

/** An ingest with a stopped wall clock and quick retries, closed with the test. */
export async function openIngest(
  t: TestContext,
  url: string,
  over: {
    broker?: Partial<SubscriberOptions>;
    historian?: Partial<SqliteHistorianOptions>;
    acks?: IngestOptions['acks'];
    http?: IngestOptions['http'];
  } = {},
) {
  const path = over.historian?.path ?? join(tempDir(t), 'historian.db');
  const options: IngestOptions = {
    clock: stoppedClock,
    historian: { ...over.historian, path },
    broker: {
      url,
      clientId: 'ingest-1',
      topics: ['edge/+/batch'],
      backoff: { minMs: 5, maxMs: 50 },
      ...over.broker,
    },
    ...(over.acks && { acks: over.acks }),
    ...(over.http && { http: over.http }),
  };
  const ingest = await Ingest.open(options, silentLog);
  t.after(() => ingest.close());
  return { ingest, path };
}
