import { MqttClient } from 'mqtt';
import { dial } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { encodeAck } from '../wire/ack.js';
import type { TopicTemplate } from '../wire/topic-template.js';
import { ackOf } from './ack-of.js';
import type { LedgerEntry } from './historian.js';
import { overlap, type SeqRange } from './ledger.js';
import { CONNECT_TIMEOUT_MS, clientOptions, type SubscriptionOptions } from './subscription-options.js';

/** What has become of the seqs that were asked for. */
export interface Asked {
  readonly gateway: string;
  readonly epoch: string;
  readonly asked: readonly SeqRange[];
  readonly arrived: number;
  /** The gateway has said that they will not come. */
  readonly lost: number;
  readonly unanswered: number;
}

/**
 * Asks the gateways for what the ledgers miss, over a connection and a session of its own. What is in a spool comes again;
 * of what is not the gateway says so. Resolves when the broker has the questions; rejects with `upstream.lost`.
 */
export async function askGateways(
  options: SubscriptionOptions,
  topic: TopicTemplate,
  entries: readonly LedgerEntry[],
): Promise<void> {
  const { url, tls, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const { properties: _, ...settings } = clientOptions(options);
  const client = new MqttClient(() => dial(url, tls) as never, { ...settings, clean: true });
  try {
    await new Promise<void>((resolve, reject) => {
      const lost = (why: string) => reject(new HoldfastError('upstream.lost', `No connection to ${url}: ${why}`));
      const timer = setTimeout(() => lost(`no answer within ${connectTimeoutMs} ms`), connectTimeoutMs);
      client.once('connect', () => {
        clearTimeout(timer);
        resolve();
      });
      client.on('error', (error) => lost(messageOf(error)));
      client.on('close', () => lost('the broker closed the connection'));
      client.connect();
    });
    for (const entry of entries) {
      const { gateway, epoch, holes } = entry;
      const [oldest] = holes;
      if (!oldest) continue;
      const ack = ackOf({ gateway, epoch }, entry, oldest);
      await client.publishAsync(topic.format({ gateway }), encodeAck({ ...ack, ask: true }), { qos: 1 });
    }
  } finally {
    await client.endAsync(true);
  }
}

/** How the ledgers answer now what was missing in them before. */
export function answers(before: readonly LedgerEntry[], now: readonly LedgerEntry[]): Asked[] {
  return before
    .filter(({ holes }) => holes.length > 0)
    .map(({ gateway, epoch, holes }) => {
      const after = now.find((entry) => entry.gateway === gateway && entry.epoch === epoch);
      const left = (ranges: readonly SeqRange[] = []) =>
        holes.reduce((sum, hole) => sum + seqsOf(overlap(ranges, hole)), 0);
      const [arrived, unanswered] = [left(after?.received), left(after?.holes)];
      return { gateway, epoch, asked: holes, arrived, unanswered, lost: seqsOf(holes) - arrived - unanswered };
    });
}

function seqsOf(ranges: readonly SeqRange[]): number {
  return ranges.reduce((sum, { from, to }) => sum + (to - from + 1), 0);
}
