/** Conversations with a broker that are almost right: what a client might say, with bytes changed, cut off and split. */
import mqtt, { type Packet } from 'mqtt-packet';
import type { Random } from '../helpers/random.js';

const CLIENT_IDS = ['__proto__', 'constructor', 'a', 'b', ''];
const MUTATED_CONNECT = 0.25;
const CUT_SHORT = 0.1;
const CHANGES_MAX = 3;

function conversation(version: number, random: Random): Buffer[] {
  const five = version === 5;
  const clientId = random.pick(CLIENT_IDS);
  const properties = five
    ? { sessionExpiryInterval: random.int(0, 1) * 60, receiveMaximum: 2, topicAliasMaximum: 3 }
    : undefined;
  const will = random.chance(0.3)
    ? {
        topic: 'w',
        payload: Buffer.from('x'),
        qos: 1,
        retain: true,
        ...(five ? { properties: { contentType: 'a' } } : {}),
      }
    : undefined;
  const clean = random.chance(0.5) || clientId === '';
  const aliased = five ? { topicAlias: 1, messageExpiryInterval: 9, userProperties: { a: 'b' } } : undefined;
  const subscriptions = [
    { topic: 'x/#', qos: random.int(0, 2) },
    { topic: '$share/g/+', qos: 1 },
  ];
  const packets = [
    { cmd: 'connect', protocolId: 'MQTT', protocolVersion: version, clientId, clean, keepalive: 10, properties, will },
    { cmd: 'subscribe', messageId: 1, subscriptions },
    { cmd: 'publish', topic: 'x/y', payload: 'z', qos: 2, dup: false, retain: true, messageId: 2, properties: aliased },
    { cmd: 'publish', topic: 'x/y', payload: 'z', qos: 1, dup: false, retain: false, messageId: 3 },
    { cmd: 'pubrel', messageId: 2 },
    { cmd: 'pubrec', messageId: 1 },
    { cmd: 'puback', messageId: 2 },
    { cmd: 'pubcomp', messageId: 1 },
    { cmd: 'subscribe', messageId: 5, subscriptions: [{ topic: 'x/#', qos: random.int(0, 2) }] },
    { cmd: 'pingreq' },
    { cmd: 'unsubscribe', messageId: 4, unsubscriptions: ['x/#'] },
    { cmd: 'disconnect' },
  ];
  return packets.map((packet) => mqtt.generate(packet as Packet, { protocolVersion: version }));
}

function mutate(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes);
  for (let changes = random.int(0, CHANGES_MAX); changes > 0; changes--)
    copy[random.int(0, copy.length - 1)] = random.int(0, 255);
  return copy.subarray(0, random.chance(CUT_SHORT) ? random.int(0, copy.length) : copy.length);
}

/** The bytes of one conversation, in the pieces in which they are to be sent. */
export function mutatedConversation(random: Random): Buffer[] {
  const [connect, ...rest] = conversation(random.int(4, 5), random) as [Buffer, ...Buffer[]];
  // Most connects are left as they are, or hardly a conversation would come to its second packet.
  const first = random.chance(MUTATED_CONNECT) ? mutate(connect, random) : connect;
  const bytes = Buffer.concat([first, ...rest.map((packet) => mutate(packet, random))]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + random.int(1, bytes.length);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}
