import * as z from 'zod';
import { listenAddress } from './address.js';
import { count, id, log, path } from './connection-schema.js';
import { listener } from './listener-schema.js';
import { reader } from './reader-schema.js';
import { topicFilter, topicTemplate, withGateway } from './topics.js';
import { duration, size } from './units.js';
import { isHttp, upstream } from './upstream-schema.js';

/** Remaining length of an MQTT packet, four bytes of seven bits [MQTT-2.1.4]. */
const PACKET_MAX = `${2 ** 28 - 1}B`;
/** A bound against slips of the pen, not a promise. */
const MANY = 1_000_000_000;

const broker = z
  .strictObject({
    listeners: z.array(listener).prefault([]).describe('Where MQTT clients of the plant connect.'),
    passwordFile: path
      .optional()
      .describe("Users and their passwords, a file of Mosquitto's; see holdfast passwd. SIGHUP reads it anew."),
    aclFile: path
      .optional()
      .describe("What each user may read and write, a file of Mosquitto's; see holdfast acl test. Absent: everything."),
    refuseDeniedFilters: z
      .boolean()
      .prefault(false)
      .describe(
        'Tell clients that subscribe to what aclFile lets them read nothing of. false: grant it and deliver nothing, as Mosquitto.',
      ),
    packetBytesMax: size('1KiB', PACKET_MAX).prefault('256KiB').describe('Largest MQTT packet that is accepted.'),
    connectTimeout: duration('100ms', '10m').prefault('5s').describe('Time a new connection has for its CONNECT.'),
    clientsMax: count(1, MANY).prefault(10_000).describe('Connections at one time.'),
    clientsPerAddressMax: count(1, MANY).prefault(5_000).describe('Connections at one time from one network address.'),
    connectRateMax: count(1, MANY)
      .prefault(200)
      .describe('New connections from one network address in a second; ten times as many at once.'),
    keepaliveMax: duration('0ms', '65535s')
      .refine((ms) => ms % 1000 === 0, { error: 'must be whole seconds' })
      .prefault('0ms')
      .describe('Longest keepalive, told to clients of MQTT 5 that ask for more or none. 0: whatever they ask for.'),
    clientMessageRateMax: count(0, MANY)
      .prefault(0)
      .describe('Publishes of one client in a second; above, it is read more slowly. 0: no limit.'),
    clientByteRateMax: size('0B').prefault('0B').describe('The same in bytes. 0: no limit.'),
    clientPendingMax: count(1, MANY)
      .prefault(1000)
      .describe('Publishes of one client that wait for the disk before its socket is paused.'),
    sessionExpiryMax: duration('0ms').prefault('7d').describe("Longest time that an absent client's session is kept."),
    retainedMax: count(0, MANY).prefault(100_000).describe('Retained messages that are kept.'),
    retainedBytesMax: size('0B').prefault('64MiB').describe('Bytes of all retained messages.'),
    retainedTime: z
      .boolean()
      .prefault(false)
      .describe(
        'Tell subscribers of MQTT 5 since when a retained value stands, as user property holdfast-stored-at in ms since 1970.',
      ),
    sessionsMax: count(1, MANY).prefault(10_000).describe('Sessions that are kept.'),
    sessionQueueMax: count(0, MANY).prefault(100_000).describe('Messages queued for one absent client.'),
    sessionQueueBytesMax: size('0B').prefault('256MiB').describe('The same in bytes of payload.'),
    sessionQueuePolicy: z
      .enum(['drop-newest', 'drop-oldest'])
      .prefault('drop-newest')
      .describe(
        'What a full queue of a client gives up: the message that comes, as Mosquitto does, or the oldest. The spool keeps all.',
      ),
    topicBytesMax: size('1B', '65535B').prefault('1KiB').describe('Length of a topic or a filter.'),
    // The matcher of Aedes, which checks the filters, stops at 100.
    topicLevelsMax: count(1, 100).prefault(20).describe('Levels of a topic or a filter.'),
    strictReceiveMaximum: z
      .boolean()
      .prefault(false)
      .describe('Disconnect clients that send more than Receive Maximum. false: slow them down, as popular ones do.'),
    whenFull: z
      .enum(['stall', 'refuse'])
      .prefault('stall')
      .describe(
        'When the spool is full: stall holds acknowledgements back; refuse tells clients of MQTT 5, and most then drop the message.',
      ),
  })
  .prefault({})
  .describe("The plant's MQTT broker.");

const bridge = z
  .strictObject({
    topics: z
      .array(topicFilter)
      .min(1)
      .prefault(['plant/#'])
      .describe('Topic filters of what goes upstream; everything else stays in the plant.'),
    readings: z
      .array(
        z.strictObject({
          topic: topicTemplate(['asset', 'metric']).describe('Topic with {asset} and {metric} as whole levels.'),
          payload: z.enum(['json']).prefault('json').describe('json: {"ts": ms, "value": v, "quality"?: "good"}.'),
          ignoreKeys: z
            .array(z.string().min(1))
            .prefault([])
            .describe('Further keys of the payload that may be dropped; other unknown keys make it an opaque message.'),
        }),
      )
      .prefault([{ topic: 'plant/{asset}/{metric}' }])
      .describe('Which messages are readings. What fits none travels as an opaque message.'),
  })
  .prefault({})
  .describe('What goes upstream.');

const whenFull = z.enum(['block', 'drop-oldest']);

const spool = z
  .strictObject({
    path: path.optional().describe("The spool's SQLite file. Default: spool.db in gateway.dataDir."),
    bytesMax: size('4MiB')
      .prefault('2GiB')
      .describe('Disk space for the file, its log and its reserve together. whenFull applies shortly before.'),
    diskFreeMin: size('0B').prefault('256MiB').describe('Free space of the disk at which whenFull applies.'),
    whenFull: whenFull
      .prefault('block')
      .describe(
        'block: nothing more is acknowledged to publishers until there is room. drop-oldest: the oldest rows make room, ' +
          'and gap records say what is missing.',
      ),
    classes: z
      .array(
        z.strictObject({
          topics: z.array(topicFilter).min(1).describe('Topic filters of this class.'),
          whenFull: whenFull.describe('The same for messages of this class.'),
        }),
      )
      .prefault([])
      .describe('Topics that are treated otherwise; the first class with a matching filter counts.'),
  })
  .prefault({})
  .describe('The durable queue.');

const gateway = z
  .strictObject({
    id: id.describe('Name of this gateway, unique among all that send to the same cloud.'),
    dataDir: path.prefault('./data').describe('Folder of everything that is kept, relative to the config file.'),
  })
  .describe('This gateway.');

/** The gateway's config: types, defaults, help and JSON Schema all come from here. */
export const gatewaySchema = z
  .strictObject({
    gateway,
    log,
    broker,
    bridge,
    spool,
    upstream,
    readers: z.array(reader).prefault([]).describe('Devices that are polled.'),
    web: z
      .strictObject({ listen: listenAddress.prefault('127.0.0.1:8080').describe('HOST:PORT of the status page.') })
      .optional()
      .describe('Status page, metrics and health. Absent: none.'),
  })
  .transform((config) => {
    const { id, dataDir } = config.gateway;
    const { path = `${dataDir}/spool.db`, ...spool } = config.spool;
    const { url, protocolVersion, clientId = `holdfast-${id}`, topic, ackTopic, ...upstream } = config.upstream;
    const ack = upstream.ack ?? (isHttp(url) ? 'app' : 'puback');
    return {
      ...config,
      spool: { path, ...spool },
      upstream: {
        url,
        protocolVersion,
        clientId,
        topic: withGateway(topic, id),
        ackTopic: withGateway(ackTopic, id),
        ...upstream,
        ack,
      },
      readers: config.readers.map((reader) => ({
        ...reader,
        topic: withGateway(reader.topic, id),
        statusTopic: withGateway(reader.statusTopic, id),
        ...(reader.commands && {
          commands: {
            ...reader.commands,
            topic: withGateway(reader.commands.topic, id),
            resultTopic: withGateway(reader.commands.resultTopic, id),
          },
        }),
      })),
    };
  });

export type GatewayConfig = z.output<typeof gatewaySchema>;
