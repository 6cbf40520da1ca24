import * as z from 'zod';
import { listenAddress } from './address.js';
import { checkConnection, connection, count, id, log, path, tls } from './connection-schema.js';
import { secret } from './secret.js';
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
    type: z
      .enum(['sqlite', 'postgres'])
      .prefault('sqlite')
      .describe(
        'Kind of the historian: a SQLite file of its own, or PostgreSQL 14 or newer, with or without TimescaleDB.',
      ),
    path: path.optional().describe("The historian's SQLite file. Default: historian.db in ingest.dataDir."),
    url: secret
      .optional()
      .describe(
        'PostgreSQL database, postgres://USER:PASSWORD@HOST:PORT/DATABASE, as a text or {file: ...} and so on.',
      ),
    tls: tls.optional().describe('TLS to PostgreSQL: with it the server must prove who it is.'),
    connections: count(1, 64).prefault(4).describe('Connections to PostgreSQL: gateways stored at the same time.'),
    futureMax: duration('0ms')
      .prefault('5m')
      .describe("How far a device's clock may be ahead; readings beyond are put into quarantine."),
    rawHorizon: duration('1d')
      .optional()
      .describe(
        'Age at which single readings are removed; hourly rollups stay, older readings are put into quarantine. Absent: never.',
      ),
    rollupEvery: duration('1s', '1h')
      .prefault('1m')
      .describe('How often hourly rollups are brought up to date where readings came in late.'),
  })
  .superRefine(({ type, path, url, tls }, context) => {
    const complain = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (type === 'postgres' && path !== undefined) complain('path', 'has no effect with type: postgres; remove it');
    if (type === 'sqlite' && url !== undefined) complain('url', 'has no effect without type: postgres');
    if (type === 'sqlite' && tls !== undefined) complain('tls', 'has no effect without type: postgres');
    if (type === 'postgres' && url === undefined) complain('type', 'postgres needs url, the database to use');
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
    const { type, path, ...rest } = config.historian;
    const file = type === 'sqlite' ? { path: path ?? `${dataDir}/historian.db` } : {};
    return {
      ...config,
      source: { url, protocolVersion, clientId, ...source },
      historian: { type, ...file, ...rest },
    };
  });

export type IngestConfig = z.output<typeof ingestSchema>;
