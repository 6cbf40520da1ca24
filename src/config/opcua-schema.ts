import * as z from 'zod';
import { backoff, count, path } from './connection-schema.js';
import { secret } from './secret.js';
import { tagUnit } from './tag-unit.js';
import { topicLevel } from './topics.js';
import { duration } from './units.js';

/** The metric under which gaps are published; a tag of that name would be taken for one. */
const GAP_METRIC = 'gap';

/** [OPC 10000-6, 5.3.1.10] */
const NODE =
  /^(?:ns=\d{1,5};|nsu=[^;]+;)?(?:i=\d{1,10}|s=.+|g=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|b=[A-Za-z0-9+/]+=*)$/is;

const tag = z.strictObject({
  name: topicLevel
    .refine((name) => name !== GAP_METRIC, { error: `${GAP_METRIC} is reserved for gap records` })
    .describe('Name of the metric.'),
  node: z
    .string()
    .regex(NODE, { error: 'expected a node id like "ns=2;s=Speed" or "nsu=urn:press;i=1001"' })
    .describe('Node id, with the index of its namespace (ns=) or, safe against renumbering, its URI (nsu=).'),
  unit: tagUnit,
  deadband: z.number().positive().optional().describe('The least change of a number that is reported.'),
  write: z
    .strictObject({
      min: z.number().optional().describe('Least value that may be written.'),
      max: z.number().optional().describe('Greatest value that may be written.'),
    })
    .refine(({ min = -Infinity, max = Infinity }) => min <= max, { error: 'min must not be greater than max' })
    .optional()
    .describe('Allows commands to write this tag. Absent: it is never written.'),
});

const group = z.strictObject({
  every: duration('10ms', '1d').describe(
    'Time between two notifications of the server, or with mode: poll between two reads.',
  ),
  sampling: duration('0ms', '1d')
    .optional()
    .describe('Time between two samples in the server; 0ms: each change. Default: every.'),
  mode: z
    .enum(['subscribe', 'poll'])
    .prefault('subscribe')
    .describe('subscribe: the server sends what changes. poll: for servers without subscriptions.'),
  queue: count(1, 10_000)
    .prefault(10)
    .describe('Samples of a tag that the server keeps until they are fetched. An overflow becomes a gap record.'),
  heartbeat: duration('100ms', '1d').prefault('1m').describe('Longest time without a reading of an unchanged value.'),
  tags: z.array(tag).min(1).describe('What is read.'),
});

const device = z.strictObject({
  asset: topicLevel.describe('Name of the asset.'),
  labels: z
    .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_]*$/, { error: 'expected letters and digits' }), topicLevel)
    .prefault({})
    .describe('Further placeholders of the topic, {area: packaging, line: l1}.'),
  groups: z.array(group).min(1).describe('Tags that are read at the same pace.'),
});

const security = z
  .strictObject({
    mode: z.enum(['None', 'Sign', 'SignAndEncrypt']).prefault('None').describe('Security of the messages.'),
    policy: z
      .enum(['None', 'Basic256Sha256', 'Aes128_Sha256_RsaOaep', 'Aes256_Sha256_RsaPss'])
      .optional()
      .describe('Security policy. Default: Basic256Sha256, or None with mode None.'),
  })
  .superRefine(({ mode, policy }, context) => {
    if (policy !== undefined && (mode === 'None') !== (policy === 'None'))
      context.addIssue({ code: 'custom', path: ['policy'], message: `cannot be ${policy} with mode ${mode}` });
  })
  .transform(({ mode, policy = mode === 'None' ? 'None' : 'Basic256Sha256' }) => ({ mode, policy }))
  .prefault({});

const url = z.string().superRefine((text, context) => {
  const fault = urlFault(text);
  if (fault) context.addIssue({ code: 'custom', message: fault });
});

function urlFault(text: string): string | undefined {
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  if (parsed?.protocol !== 'opc.tcp:' || parsed.hostname === '') return 'expected a URL like opc.tcp://HOST:4840';
  // The text is not repeated: it may hold a password.
  return parsed.username !== '' || parsed.password !== ''
    ? 'must not contain credentials; write them as username and password'
    : undefined;
}

/** The keys of an OPC UA reader; those that every reader has come with `common`. */
export function opcuaReader<Common extends z.core.$ZodLooseShape>(common: Common) {
  return z.strictObject({
    type: z.literal('opcua').describe('Protocol.'),
    url: url.describe('The server: opc.tcp://HOST:4840, with its path if it has one.'),
    security: security.describe('Absent: none. The certificates are in opcua/ in the data folder.'),
    username: z.string().min(1).optional().describe('User name. Absent: anonymous.'),
    password: secret.optional().describe('Password: a text, {file: ...}, {env: ...} or {credential: ...}.'),
    userCert: path.optional().describe('File with the certificate of the user (PEM), instead of a name.'),
    userKey: path.optional().describe('File with its key (PEM).'),
    connectTimeout: duration('100ms', '10m').prefault('10s').describe('Time for connecting and for the session.'),
    timeout: duration('10ms', '10m').prefault('5s').describe('Time for one answer.'),
    keepAlive: duration('100ms', '10m')
      .prefault('5s')
      .describe('Time between two questions whether the server is there.'),
    backoff: backoff('1s', '30s').describe('Waits between connection attempts.'),
    devices: z.array(device).min(1).describe('Assets in the server.'),
    ...common,
  });
}

/** Keys of an identity that go together. */
export function* identityFaults(reader: {
  readonly username?: string | undefined;
  readonly password?: unknown;
  readonly userCert?: string | undefined;
  readonly userKey?: string | undefined;
}): Generator<{ readonly path: string; readonly message: string }> {
  const { username, password, userCert, userKey } = reader;
  if (password !== undefined && username === undefined) yield { path: 'password', message: 'needs a username' };
  if (username !== undefined && password === undefined) yield { path: 'username', message: 'needs a password' };
  if (userCert !== undefined && userKey === undefined) yield { path: 'userCert', message: 'needs userKey too' };
  if (userKey !== undefined && userCert === undefined) yield { path: 'userKey', message: 'needs userCert too' };
  if (userCert !== undefined && username !== undefined)
    yield { path: 'userCert', message: 'takes the place of username and password; write one of them only' };
}
