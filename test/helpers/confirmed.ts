import type { TestContext } from 'node:test';
import { Batcher } from '../../src/bridge/batcher.js';
import { ConfirmedUpstream } from '../../src/bridge/confirmed-upstream.js';
import { goneFrom } from '../../src/bridge/gone.js';
import { MqttUpstream } from '../../src/bridge/mqtt-upstream.js';
import { Replayer } from '../../src/bridge/replayer.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { GatewayId } from '../../src/model/ids.js';
import type { Spool } from '../../src/spool/spool.js';

export const ACK_TOPIC = 'edge/line-1/ack';

export interface ConfirmedFixture {
  readonly protocolVersion?: 4 | 5;
  readonly inFlightMax?: number;
  readonly unconfirmedRowsMax?: number;
  readonly unconfirmedBytesMax?: number;
  readonly format?: 'columns' | 'rows-json' | 'rows-msgpack';
}

/** A replayer with `ack: app` and waits short enough for tests; stopped with the test. */
export function startConfirmed(t: TestContext, spool: Spool, port: number, options: ConfirmedFixture = {}) {
  const { protocolVersion = 5, inFlightMax = 4, format = 'columns' } = options;
  const { unconfirmedRowsMax = 1_000, unconfirmedBytesMax = 1024 * 1024 } = options;
  const source = { gateway: 'line-1' as GatewayId, epoch: spool.epoch };
  const batcher = new Batcher({ source, format, compression: 'gzip', asksForAck: true });
  const transport = new MqttUpstream({
    url: `mqtt://127.0.0.1:${port}`,
    protocolVersion,
    clientId: 'holdfast-line-1',
    topic: 'edge/line-1/batch',
    ackTopic: ACK_TOPIC,
    ...source,
    contentType: format === 'columns',
    connectTimeoutMs: 500,
    keepaliveMs: 30_000,
    onNoSubscribers: 'accept',
    log: silentLog,
  });
  const upstream = new ConfirmedUpstream({
    transport,
    source,
    tail: spool.tail,
    inFlightMax,
    unconfirmedRowsMax,
    unconfirmedBytesMax,
    ackTimeoutMs: 400,
    gone: (ranges) => goneFrom(spool, batcher, ranges),
    clock: systemClock,
    log: silentLog,
  });
  const replayer = new Replayer({
    spool,
    upstream,
    batcher,
    batchRowsMax: 10,
    batchBytesMax: 128 * 1024,
    inFlightMax: 10_000,
    lingerMs: 5,
    ackTimeoutMs: 400,
    backoff: { minMs: 5, maxMs: 40 },
    clock: systemClock,
    log: silentLog,
  });
  replayer.start();
  t.after(() => replayer.stop(0));
  return { replayer, upstream };
}
