import * as z from 'zod';
import { tryEndpoint, url } from './address.js';
import { ofKind } from './kinds.js';
import { secret } from './secret.js';
import { duration } from './units.js';

/** A path in the file system; the loader makes it absolute. */
export const path = ofKind(
  'path',
  z
    .string()
    .min(1)
    .regex(/^[^\0]*$/, { error: 'must not contain a NUL character' }),
);

/** The name of a gateway or an ingest: part of topics, client ids and file names. */
export const id = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: 'expected 1 to 64 letters, digits, dots, underscores or hyphens' });

/** A whole number. */
export function count(min: number, max: number) {
  return z.int().min(min).max(max);
}

/** Waits between attempts: they double from `min` to `max`, each spread at random. */
export function backoff(min: string, max: string) {
  return z
    .strictObject({
      min: duration('1ms').prefault(min).describe('Shortest wait between two attempts.'),
      max: duration('1ms').prefault(max).describe('Longest wait between two attempts.'),
    })
    .superRefine((waits, context) => {
      if (waits.min > waits.max)
        context.addIssue({ code: 'custom', path: ['min'], message: 'must not be longer than max' });
    })
    .prefault({});
}

export const log = z
  .strictObject({
    level: z
      .enum(['debug', 'info', 'warn', 'error', 'silent'])
      .prefault('info')
      .describe('Least important level that is logged.'),
  })
  .prefault({})
  .describe('Log lines, as JSON on stderr.');

export const tls = z
  .strictObject({
    ca: path.optional().describe("File with the certificate authorities to trust (PEM) instead of the system's."),
    cert: path.optional().describe('File with the client certificate (PEM).'),
    key: path.optional().describe('File with the key of the client certificate (PEM).'),
    servername: z
      .string()
      .min(1)
      .optional()
      .describe("Name to expect in the server's certificate instead of the host."),
  })
  .superRefine((value, context) => {
    for (const [one, other] of [
      ['cert', 'key'],
      ['key', 'cert'],
    ] as const)
      if (value[one] && !value[other]) context.addIssue({ code: 'custom', path: [one], message: `needs ${other} too` });
  });

/** How to reach a broker as its client: the same for the gateway's upstream and for the ingest's source. */
export const connection = {
  url: url(['mqtt', 'mqtts', 'ws', 'wss'], { path: true }).describe(
    'Broker to connect to: mqtt://, mqtts://, ws:// or wss://.',
  ),
  protocolVersion: z.literal([5, 4]).prefault(5).describe('MQTT version: 5, or 4 for MQTT 3.1.1.'),
  clientId: z.string().min(1).max(256).optional(),
  username: z.string().min(1).optional().describe('User name.'),
  password: secret.optional().describe('Password: a text, {file: ...}, {env: ...} or {credential: ...}.'),
  tls: tls.optional().describe('TLS settings for mqtts:// and wss://, and https:// where there is such a url.'),
  connectTimeout: duration('100ms', '10m')
    .prefault('20s')
    .describe('Time for connecting, from the first byte to CONNACK.'),
  // [MQTT-3.1.2.10] whole seconds in 16 bits; 0 would switch it off.
  keepalive: duration('1s', '65535s')
    .refine((ms) => ms % 1000 === 0, { error: 'must be whole seconds' })
    .prefault('30s')
    .describe('Longest silence on the connection before a PING.'),
  backoff: backoff('1s', '60s').describe('Waits between connection attempts.'),
};

/** Settings of a connection that contradict each other. */
export function checkConnection(value: Connection, context: z.core.$RefinementCtx): void {
  const scheme = tryEndpoint(value.url)?.scheme;
  if (value.tls && (scheme === 'mqtt' || scheme === 'ws' || scheme === 'http'))
    context.addIssue({ code: 'custom', path: ['tls'], message: `has no effect with ${scheme}://; use ${scheme}s://` });
  // [MQTT-3.1.2-22], lifted in MQTT 5.
  if (value.password && value.username === undefined && value.protocolVersion === 4)
    context.addIssue({ code: 'custom', path: ['password'], message: 'needs a username in MQTT 3.1.1' });
}

export type Connection = z.output<z.ZodObject<typeof connection>>;
