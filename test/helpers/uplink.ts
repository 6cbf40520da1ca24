import type { TestContext } from 'node:test';
import { Batcher } from '../../src/bridge/batcher.js';
import { MqttUpstream, type MqttUpstreamOptions } from '../../src/bridge/mqtt-upstream.js';
import { Replayer, type ReplayerOptions } from '../../src/bridge/replayer.js';
import { systemClock } from '../../src/lib/clock.js';
import { type Log, silentLog } from '../../src/lib/log.js';
import type { GatewayId } from '../../src/model/ids.js';
import { type AcceptedPublish, FaultBroker, type FaultBrokerOptions } from '../../src/sim/cloud/fault-broker.js';
import type { Spool } from '../../src/spool/spool.js';
import { decodeBatch } from '../../src/wire/decode.js';

export const TOPIC = 'edge/line-1/batch';

export interface ReplayFixture extends Partial<Omit<ReplayerOptions, 'spool' | 'upstream' | 'batcher'>> {
  readonly mqtt?: Partial<MqttUpstreamOptions>;
}

/** A replayer on `spool` that sends to `port`, with waits short enough for tests; stopped with the test. */
export function startReplayer(
  t: TestContext,
  spool: Spool,
  port: number,
  options: ReplayFixture = {},
  log: Log = silentLog,
) {
  const gateway = 'line-1' as GatewayId;
  const { mqtt, ...rest } = options;
  const upstream = new MqttUpstream({
    url: `mqtt://127.0.0.1:${port}`,
    protocolVersion: 5,
    clientId: 'holdfast-line-1',
    topic: TOPIC,
    gateway,
    epoch: spool.epoch,
    contentType: true,
    connectTimeoutMs: 500,
    keepaliveMs: 30_000,
    onNoSubscribers: 'accept',
    log,
    ...mqtt,
  });
  const replayer = new Replayer({
    spool,
    upstream,
    batcher: new Batcher({ source: { gateway, epoch: spool.epoch }, format: 'columns', compression: 'gzip' }),
    batchRowsMax: 10,
    batchBytesMax: 128 * 1024,
    inFlightMax: 4,
    lingerMs: 5,
    ackTimeoutMs: 400,
    backoff: { minMs: 5, maxMs: 40 },
    clock: systemClock,
    log,
    ...rest,
  });
  replayer.start();
  t.after(() => replayer.stop(0));
  return replayer;
}

/** Everything a consumer behind the broker has been given, in the order of arrival. */
export class Consumer {
  readonly seqs: number[] = [];
  readonly batches: { first: number; last: number; lost: readonly object[] }[] = [];
  readonly bytes: number[] = [];

  readonly take = ({ payload }: AcceptedPublish): void => {
    const batch = decodeBatch(payload);
    this.batches.push({ first: batch.first, last: batch.last, lost: batch.lost });
    this.bytes.push(payload.length);
    for (const row of batch.rows) this.seqs.push(row.seq);
  };

  /** Seqs in the order in which each was seen first. */
  get distinct(): number[] {
    return [...new Set(this.seqs)];
  }
}

export async function openCloud(t: TestContext, options: FaultBrokerOptions = {}) {
  const consumer = new Consumer();
  const cloud = await FaultBroker.open({ port: 0, onPublish: consumer.take, ...options });
  t.after(() => cloud.close());
  return { cloud, consumer };
}

export const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
