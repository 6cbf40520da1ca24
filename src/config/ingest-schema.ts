import * as z from 'zod';
import { listenAddress } from './address.js';
import { checkConnection, connection, id, log, path } from './connection-schema.js';
import { topicFilter } from './topics.js';
import { duration } from './units.js';

const source = z
  .strictObject({
    ...connection,
    clientId: connection.clientId.describe('MQTT client id. Default: holdfast-{ingest.id}.'),
    topic: topicFilter.prefault('edge/+/batch').describe("Topic filter of the gateways' batches."),
    sessionExpiry: duration('1m')
      .prefault('1d')
      .describe('How long the broker keeps batches for an ingest that is away.'),
  })
  .superRefine(checkConnection)
  .describe('The broker that the gateways send to.');

const historian = z
  .strictObject({
    type: z.enum(['sqlite']).prefault('sqlite').describe('Kind of the historian.'),
    path: path.optional().describe("The historian's SQLite file. Default: historian.db in ingest.dataDir."),
    futureMax: duration('0ms')
      .prefault('5m')
      .describe("How far a device's clock may be ahead; readings beyond are put into quarantine."),
  })
  .prefault({})
  .describe('Where readings are kept.');

const ingest = z
  .strictObject({
    id: id.describe('Name of this ingest.'),
    dataDir: path.prefault('./historian').describe('Folder of everything that is kept, relative to the config file.'),
  })
  .describe('This ingest.');

/** The ingest's config: types, defaults, help and JSON Schema all come from here. */
export const ingestSchema = z
  .strictObject({
    ingest,
    log,
    source,
    historian,
    web: z
      .strictObject({ listen: listenAddress.prefault('127.0.0.1:8081').describe('HOST:PORT of the status page.') })
      .optional()
      .describe('Status page, metrics and health. Absent: none.'),
  })
  .transform((config) => {
    const { id, dataDir } = config.ingest;
    const { url, protocolVersion, clientId = `holdfast-${id}`, ...source } = config.source;
    const { type, path = `${dataDir}/historian.db`, ...historian } = config.historian;
    return {
      ...config,
      source: { url, protocolVersion, clientId, ...source },
      historian: { type, path, ...historian },
    };
  });

export type IngestConfig = z.output<typeof ingestSchema>;
