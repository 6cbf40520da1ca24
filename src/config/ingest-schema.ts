import * as z from 'zod';
import { listenAddress } from './address.js';
import { checkConnection, connection, count, id, log, path, tls } from './connection-schema.js';
import { secret } from './secret.js';
import { sharableFilter, topicTemplate } from './topics.js';
import { duration, size } from './units.js';

const source = z
  .strictObject({
    ...connection,
    clientId: connection.clientId.describe('MQTT client id. Default: holdfast-{ingest.id}.'),
    topic: sharableFilter
      .prefault('edge/+/batch')
      .describe("Topic filter of the gateways' batches; $share/GROUP/FILTER for several workers."),
    ack: z
      .enum(['asked', 'always', 'never'])
      .prefault('asked')
      .describe('Which gateways are told what is stored: those whose batches ask for it (ack: app), all, or none.'),
    ackTopic: topicTemplate(['gateway']).prefault('edge/{gateway}/ack').describe('Topic on which they are told.'),
    sessionExpiry: duration('1m')
      .prefault('1d')
      .describe('How long the broker keeps batches for an ingest that is away.'),
  })
  .superRefine(checkConnection)
  .describe('The broker that the gateways send to. Absent: batches come by HTTP only.');

const http = z
  .strictObject({
    listen: listenAddress.prefault('127.0.0.1:8443').describe('HOST:PORT of the endpoint.'),
    path: z
      .string()
      .regex(/^\/[A-Za-z0-9._~/-]*$/, { error: 'expected a path like /ingest' })
      .prefault('/ingest')
      .describe('Path of the endpoint.'),
    tokens: z
      .array(secret)
      .min(1)
      .optional()
      .describe('Bearer tokens that are let in: each a text, {file: ...}, {env: ...} or {credential: ...}.'),
    anonymous: z.boolean().prefault(false).describe('Whether batches are taken from everybody, without a token.'),
    tls: z
      .strictObject({
        cert: path.describe("File with the endpoint's certificate and its intermediates (PEM)."),
        key: path.describe('File with the key of the certificate (PEM).'),
      })
      .optional()
      .describe('Certificate of the endpoint. Absent: HTTP, for a proxy in front of it.'),
    bodyBytesMax: size('1KiB', '256MiB').prefault('16MiB').describe('Size of one batch.'),
  })
  .superRefine(({ tokens, anonymous }, context) => {
    const complain = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (!tokens && !anonymous) complain('tokens', 'needed, or anonymous: true to take batches from everybody');
    if (tokens && anonymous) complain('anonymous', 'contradicts tokens');
  })
  .describe('Endpoint for gateways that send by HTTP. Absent: none.');

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
    ownerUrl: secret
      .optional()
      .describe(
        'The same database as the owner of the schema, for migrations and what TimescaleDB leaves to owners; url then needs no more than to write.',
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
  .superRefine(({ type, path, url, ownerUrl, tls }, context) => {
    const complain = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (type === 'postgres' && path !== undefined) complain('path', 'has no effect with type: postgres; remove it');
    if (type === 'sqlite' && url !== undefined) complain('url', 'has no effect without type: postgres');
    if (type === 'sqlite' && ownerUrl !== undefined) complain('ownerUrl', 'has no effect without type: postgres');
    if (type === 'sqlite' && tls !== undefined) complain('tls', 'has no effect without type: postgres');
    if (type === 'postgres' && url === undefined) complain('type', 'postgres needs url, the database to use');
  })
  .prefault({})
  .describe('Where readings are kept.');

const reconcile = z
  .strictObject({
    afterOutage: duration('1m')
      .prefault('10m')
      .describe('A gateway that was silent for longer is reconciled by itself when it is back.'),
    within: duration('10m')
      .prefault('3h')
      .describe('An outage that is not proved complete so long after its last progress is an alarm.'),
  })
  .prefault({})
  .describe('Proof that nothing is missing after an outage.');

const ingest = z
  .strictObject({
    id: id.describe('Name of this ingest.'),
    dataDir: path.prefault('./historian').describe('Folder of everything that is kept, relative to the config file.'),
    http: http.optional(),
  })
  .describe('This ingest.');

/** The ingest's config: types, defaults, help and JSON Schema all come from here. */
export const ingestSchema = z
  .strictObject({
    ingest,
    log,
    source: source.optional(),
    historian,
    reconcile,
    web: z
      .strictObject({ listen: listenAddress.prefault('127.0.0.1:8081').describe('HOST:PORT of the status page.') })
      .optional()
      .describe('Status page, metrics and health. Absent: none.'),
  })
  .superRefine(({ ingest, source }, context) => {
    if (!source && !ingest.http)
      context.addIssue({ code: 'custom', path: ['source'], message: 'needed, or ingest.http for batches by HTTP' });
  })
  .transform((config) => {
    const { id, dataDir } = config.ingest;
    const { type, path, ...rest } = config.historian;
    const file = type === 'sqlite' ? { path: path ?? `${dataDir}/historian.db` } : {};
    return {
      ...config,
      source: config.source && withClientId(config.source, `holdfast-${id}`),
      historian: { type, ...file, ...rest },
    };
  });

function withClientId({ url, protocolVersion, clientId, ...rest }: z.output<typeof source>, byDefault: string) {
  return { url, protocolVersion, clientId: clientId ?? byDefault, ...rest };
}

export type IngestConfig = z.output<typeof ingestSchema>;
