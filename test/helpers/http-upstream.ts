import type { TestContext } from 'node:test';
import { Batcher } from '../../src/bridge/batcher.js';
import { HttpUpstream, type HttpUpstreamOptions } from '../../src/bridge/http-upstream.js';
import { Replayer, type ReplayerOptions } from '../../src/bridge/replayer.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { GatewayId } from '../../src/model/ids.js';
import type { Spool } from '../../src/spool/spool.js';

type Over = Partial<HttpUpstreamOptions> & Partial<Pick<ReplayerOptions, 'batchRowsMax' | 'ackTimeoutMs' | 'backoff'>>;

/** A replayer that POSTs to `url`, with waits short enough for tests; stopped with the test. */
export function startHttp(t: TestContext, spool: Spool, url: string, over: Over = {}): Replayer {
  const source = { gateway: 'line-1' as GatewayId, epoch: spool.epoch };
  const { format = 'columns', gzip = true, batchRowsMax = 10, ackTimeoutMs = 2_000 } = over;
  const { backoff = { minMs: 1, maxMs: 10 } } = over;
  const inFlightMax = over.inFlightMax ?? 4;
  const replayer = new Replayer({
    spool,
    upstream: new HttpUpstream({ url, source, format, gzip, inFlightMax, connectTimeoutMs: 500, ...over }),
    batcher: new Batcher({ source, format, compression: gzip ? 'gzip' : 'none' }),
    batchRowsMax,
    batchBytesMax: 128 * 1024,
    inFlightMax,
    lingerMs: 5,
    ackTimeoutMs,
    backoff,
    clock: systemClock,
    log: silentLog,
  });
  replayer.start();
  t.after(() => replayer.stop(0));
  return replayer;
}
