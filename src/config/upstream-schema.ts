import * as z from 'zod';
import { tryEndpoint, url } from './address.js';
import { checkConnection, connection, count } from './connection-schema.js';
import { secret } from './secret.js';
import { topicTemplate } from './topics.js';
import { duration, size } from './units.js';

/** Remaining length of an MQTT packet, four bytes of seven bits [MQTT-2.1.4]. */
const PACKET_MAX = `${2 ** 28 - 1}B`;

export const upstream = z
  .strictObject({
    ...connection,
    url: url(['mqtt', 'mqtts', 'ws', 'wss', 'http', 'https'], { path: true }).describe(
      "Broker to connect to: mqtt://, mqtts://, ws:// or wss://; or an ingest's HTTP endpoint: http:// or https://.",
    ),
    clientId: connection.clientId.describe('MQTT client id. Default: holdfast-{gateway.id}.'),
    token: secret
      .optional()
      .describe('Bearer token for http:// and https://: a text, {file: ...}, {env: ...} or {credential: ...}.'),
    preset: z.enum(['generic']).prefault('generic').describe('Kind of the broker.'),
    topic: topicTemplate([], ['gateway']).prefault('edge/{gateway}/batch').describe('Topic of the batches.'),
    format: z
      .enum(['columns', 'rows-json', 'rows-msgpack'])
      .prefault('columns')
      .describe('columns: compact msgpack columns. rows-json, rows-msgpack: one record per reading.'),
    compression: z.enum(['gzip', 'none']).prefault('gzip').describe('Compression of a batch.'),
    batchRowsMax: count(1, 100_000).prefault(500).describe('Rows in one batch.'),
    batchBytesMax: size('1KiB', PACKET_MAX).prefault('128KiB').describe('Size of one batch.'),
    // [MQTT-3.1.2.11.3] Receive Maximum has 16 bits.
    inFlightMax: count(1, 65_535).prefault(16).describe('Batches sent and not yet acknowledged.'),
    linger: duration('0ms', '1h').prefault('1s').describe('Longest wait of a row for others to fill its batch.'),
    ack: z
      .enum(['puback', 'app'])
      .optional()
      .describe(
        "What counts as delivered. puback: the broker's PUBACK. app: the word of the consumer behind it that it has stored " +
          'the rows. Default: puback; app with http:// and https://.',
      ),
    ackTopic: topicTemplate([], ['gateway'])
      .prefault('edge/{gateway}/ack')
      .describe("Topic of the consumer's acknowledgements, with ack: app."),
    unconfirmedRowsMax: count(1, 10_000_000)
      .prefault(50_000)
      .describe('Rows that the broker has and the consumer has not confirmed, with ack: app.'),
    unconfirmedBytesMax: size('1KiB', '1GiB')
      .prefault('16MiB')
      .describe('The same in bytes of batches, which are kept in memory.'),
    ackTimeout: duration('100ms', '1h')
      .prefault('20s')
      .describe('Time for an acknowledgement before reconnecting; for the one of a consumer, before sending again.'),
    onNoSubscribers: z
      .enum(['hold', 'accept'])
      .prefault('hold')
      .describe('A broker without a subscriber for the batches: hold keeps them and tries again, accept lets them go.'),
  })
  .superRefine((value, context) => {
    checkConnection(value, context);
    const complain = (key: keyof typeof value, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message });
    const scheme = tryEndpoint(value.url)?.scheme;
    if (!isHttp(value.url)) {
      if (value.token) complain('token', `has no effect with ${scheme}://; use username and password`);
      return;
    }
    for (const key of ['username', 'password', 'clientId'] as const)
      if (value[key] !== undefined) complain(key, `has no effect with ${scheme}://; use token`);
    if (value.ack === 'puback') complain('ack', `there is no PUBACK with ${scheme}://; leave it out`);
  })
  .describe('The broker in the cloud, or the HTTP endpoint.');

export function isHttp(url: string): boolean {
  return /^https?:/.test(url);
}
