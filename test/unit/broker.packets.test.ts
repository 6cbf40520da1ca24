import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { FrameReader } from '../../src/broker/frames.js';
import { scanProperties } from '../../src/broker/properties.js';
import { decodePublish, measurePublish, type Shape, writePublish } from '../../src/broker/publish-codec.js';
import { ProtocolError } from '../../src/broker/reason.js';

const LIMIT = 300_000;
const SHAPE: Shape = {
  qos: 1,
  retain: false,
  dup: false,
  packetId: 7,
  subscriptionIds: null,
  alias: 0,
  aliasIsNew: false,
  expiryS: 0,
};

function framesOf(chunks: readonly Buffer[], bytesMax = LIMIT, bodies: number[] = []): Buffer[] {
  const reader = new FrameReader(bytesMax);
  const frames: Buffer[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let frame = reader.next(); frame; frame = reader.next()) {
      bodies.push(frame.length - reader.bodyAt);
      frames.push(Buffer.from(frame));
    }
  }
  return frames;
}

test('packets come out whole however the stream is cut', () => {
  const sizes = [0, 1, 126, 127, 128, 129, 5_000, 16_383, 16_384, 100_000, 3];
  const packets = sizes.map((size) => {
    const length: number[] = [];
    let left = size;
    do {
      length.push((left & 127) | (left > 127 ? 128 : 0));
      left >>= 7;
    } while (left > 0);
    return Buffer.concat([Buffer.from([0x30, ...length]), Buffer.alloc(size, size & 255)]);
  });
  const stream = Buffer.concat(packets);
  for (const step of [1, 2, 3, 7, 100, 1_000, 65_536, stream.length]) {
    const chunks: Buffer[] = [];
    for (let at = 0; at < stream.length; at += step) chunks.push(stream.subarray(at, at + step));
    const bodies: number[] = [];
    assert.deepEqual(framesOf(chunks, LIMIT, bodies), packets, `in steps of ${step}`);
    assert.deepEqual(bodies, sizes);
  }
});

test('a length is refused as soon as it is known, before its bytes are waited for', () => {
  assert.throws(() => framesOf([Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f])]), { reason: 0x95 });
  assert.throws(() => framesOf([Buffer.from([0x30, 0xff]), Buffer.from([0xff, 0xff, 0xff])]), { reason: 0x81 });
  assert.throws(() => framesOf([Buffer.from([0x30, 100])], 101), ProtocolError);
  assert.deepEqual(framesOf([Buffer.from([0x30, 100])], 102), []);
});

test('what is written is what mqtt-packet reads, for both versions', () => {
  const topic = 'plant/ä/temp';
  const userProperties = { b: '1', a: ['2', '3'] };
  for (const size of [0, 1, 100, 127, 128, 20_000]) {
    for (const version of [4, 5]) {
      const five = version === 5;
      const properties = five ? { contentType: 'x', userProperties, correlationData: Buffer.from([0, 1]) } : undefined;
      const packet = {
        cmd: 'publish',
        topic,
        payload: Buffer.alloc(size, 'p'),
        qos: 2,
        dup: false,
        retain: true,
        messageId: 513,
        properties,
      };
      const bytes = mqtt.generate(packet as Packet, { protocolVersion: version });
      const reader = new FrameReader(LIMIT);
      reader.push(bytes);
      const read = decodePublish(reader.next() as Buffer, reader.bodyAt, version);
      assert.deepEqual(
        [read.topic, read.payload.length, read.qos, read.retain, read.packetId],
        [topic, size, 2, true, 513],
      );
      const content = { topic, payload: read.payload, props: read.properties?.bytes ?? null };
      const shape = {
        ...SHAPE,
        qos: 2 as const,
        retain: true,
        dup: true,
        ...(five ? { subscriptionIds: [1, 300], alias: 3, aliasIsNew: true, expiryS: 70_000 } : {}),
      };
      const measured = measurePublish(version, content, shape);
      const written = Buffer.alloc(measured.bytes + 3, 0xee);
      writePublish(written, 3, version, content, shape, measured);
      let back: Record<string, unknown> = {};
      const parser = mqtt.parser({ protocolVersion: version });
      parser.on('packet', (parsed) => {
        back = parsed as never;
      });
      assert.equal(parser.parse(written.subarray(3)), 0, 'nothing is left over');
      assert.deepEqual(
        [back.topic, (back.payload as Buffer).length, back.qos, back.retain, back.dup, back.messageId],
        [topic, size, 2, true, true, 7],
      );
      if (!five) continue;
      const { messageExpiryInterval, subscriptionIdentifier, topicAlias, contentType } = back.properties as Record<
        string,
        unknown
      >;
      assert.deepEqual(
        [messageExpiryInterval, subscriptionIdentifier, topicAlias, contentType],
        [70_000, [1, 300], 3, 'x'],
      );
    }
  }
});

test('properties that belong to the message stay byte for byte in their order, the others are taken out', () => {
  const user = (key: string, value: string) =>
    Buffer.from([0x26, 0, key.length, ...Buffer.from(key), 0, value.length, ...Buffer.from(value)]);
  const kept = [user('b', '1'), user('a', '2'), user('b', '3'), Buffer.from([1, 1])];
  const section = Buffer.concat([
    kept[0]!,
    Buffer.from([0x23, 0, 5]),
    kept[1]!,
    kept[2]!,
    Buffer.from([2, 0, 0, 0, 9]),
    kept[3]!,
  ]);
  const scanned = scanProperties(section, false);
  assert.deepEqual(scanned.bytes, Buffer.concat(kept));
  assert.deepEqual([scanned.alias, scanned.expiryS], [5, 9]);
});

test('bad properties are refused with the reason that fits', () => {
  const cases: readonly [section: number[], ofWill: boolean, reason: number][] = [
    [[0x23, 0], false, 0x81],
    [[3, 0, 9, 65], false, 0x81],
    [[3, 0, 1, 0xff], false, 0x81],
    [[8, 0, 1, 0x23], false, 0x82],
    [[1, 2], false, 0x82],
    [[1, 0, 1, 0], false, 0x82],
    [[0x0b, 1], false, 0x82],
    [[0x23, 0, 1], true, 0x82],
    [[0x18, 0, 0, 0, 1], false, 0x82],
    [[0xff], false, 0x82],
  ];
  for (const [section, ofWill, reason] of cases)
    assert.throws(() => scanProperties(Buffer.from(section), ofWill), { reason }, section.join(' '));
});
