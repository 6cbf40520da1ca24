import { Buffer } from 'node:buffer';
import type { IPublishPacket } from 'mqtt-packet';
import type { CloudMessage } from './session.js';
import { TEXT_BYTES_MAX } from './topics.js';

type Properties = NonNullable<IPublishPacket['properties']>;

/** What travels on to subscribers [MQTT-3.3.2-4 and following]; alias and subscription id belong to one connection. */
const FORWARDED: { readonly [Name in keyof Properties]?: (value: unknown) => boolean } = {
  payloadFormatIndicator: (value) => typeof value === 'boolean',
  messageExpiryInterval: (value) => typeof value === 'number' && value >= 0,
  contentType: isText,
  responseTopic: isText,
  correlationData: Buffer.isBuffer,
  userProperties: (value) =>
    Object.entries(value as object)
      .flat(2)
      .every(isText),
};

/** The message of a publish, or undefined when a property is doubled, cut short, or of the wrong kind. */
export function messageOf(packet: IPublishPacket): CloudMessage | undefined {
  const properties = packet.properties && forwarded(packet.properties);
  if (packet.properties && !properties) return undefined;
  const expirySeconds = properties?.messageExpiryInterval;
  return {
    topic: packet.topic,
    // A copy: the packet is a slice of a receive buffer, which a queued message would keep alive as a whole.
    payload: Buffer.from(packet.payload),
    properties,
    expiresMono: expirySeconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + expirySeconds * 1000,
  };
}

function forwarded(given: Properties): Properties | undefined {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    const valid = FORWARDED[name as keyof Properties];
    if (!valid?.(value)) return undefined;
    kept[name] = value;
  }
  return kept;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && Buffer.byteLength(value) <= TEXT_BYTES_MAX;
}
