import { setTimeout as delay } from 'node:timers/promises';
import { Batcher } from '../../src/bridge/batcher.js';
import { MqttUpstream } from '../../src/bridge/mqtt-upstream.js';
import { Replayer } from '../../src/bridge/replayer.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { GatewayId, Millis } from '../../src/model/ids.js';
import type { SpoolInput } from '../../src/model/row.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { encodeReadingPayload } from '../../src/wire/reading.js';
import { holdfast } from './peers.js';

export interface DrainResult {
  readonly rows: number;
  readonly rttMs: number;
  readonly rowsPerSecond: number;
  readonly bytesPerReading: number;
}

const ASSETS = 4;
const TAGS = 10;
const FILL_ROWS = 5_000;

/** What a plant sends: 4 assets of 10 tags once a second, floats that wander, counters that count, a state, a flag. */
function* plant(rows: number): Generator<SpoolInput> {
  let seed = 7;
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  let ts = 0;
  const walks = Array.from({ length: ASSETS * TAGS }, () => 20 + random() * 60);
  for (let n = 0; n < rows; n++) {
    const series = n % (ASSETS * TAGS);
    const tag = series % TAGS;
    const asset = `press0${Math.floor(series / TAGS) + 1}`;
    const scan = Math.floor(n / (ASSETS * TAGS));
    // One time per scan of an asset: that of the answer, with the jitter of a network.
    if (tag === 0) ts = 1_790_000_000_000 + scan * 1_000 + Math.floor(series / TAGS) * 7 + Math.floor(random() * 4);
    walks[series] = (walks[series] as number) + random() - 0.5;
    const wander = walks[series] as number;
    const [type, value] =
      tag < 4
        ? (['f', Math.fround(wander)] as const)
        : tag < 7
          ? (['f', Math.round(wander * 10) / 10] as const)
          : tag === 7
            ? (['i', 1_000_000 + scan * 3] as const)
            : tag === 8
              ? (['b', random() > 0.02] as const)
              : (['s', random() > 0.03 ? 'running' : 'blocked'] as const);
    const metric = `tag_${tag}`;
    const payload = encodeReadingPayload({ ts: ts as Millis, type, value, quality: 192 });
    const message = {
      topic: `acme/plant1/line3/${asset}/${metric}`,
      payload,
      qos: 1,
      retain: true,
      props: null,
    } as const;
    yield { ...message, type, asset, metric, deviceTs: ts as Millis };
  }
}

/** Fills a spool, then measures from the moment the link is up until the last row has been acknowledged. */
export async function drain(path: string, rows: number, rttMs: number): Promise<DrainResult> {
  const store = await Store.open({ path, tables: [Spool.tables] });
  const spool = await Spool.open(store, systemClock);
  const inputs = [...plant(rows)];
  for (let at = 0; at < rows; at += FILL_ROWS) await spool.enqueue(inputs.slice(at, at + FILL_ROWS));
  const port = (ready: Record<string, unknown>) => ready.port as number;
  const cloud = await holdfast(port, 'simulate', 'cloud', '--port', '0');
  const wan =
    rttMs > 0
      ? await holdfast(
          port,
          'simulate',
          'wan',
          '--port',
          '0',
          '--to',
          `127.0.0.1:${cloud.port}`,
          '--latency',
          `${rttMs / 2}ms`,
        )
      : cloud;
  const gateway = 'bench' as GatewayId;
  const batcher = new Batcher({ source: { gateway, epoch: spool.epoch }, format: 'columns', compression: 'gzip' });
  const replayer = new Replayer({
    spool,
    upstream: new MqttUpstream({
      url: `mqtt://127.0.0.1:${wan.port}`,
      protocolVersion: 5,
      clientId: 'bench',
      topic: 'edge/bench/batch',
      gateway,
      epoch: spool.epoch,
      contentType: true,
      connectTimeoutMs: 5_000,
      keepaliveMs: 30_000,
      onNoSubscribers: 'accept',
      log: silentLog,
    }),
    batcher,
    batchRowsMax: 500,
    batchBytesMax: 128 * 1024,
    inFlightMax: 16,
    lingerMs: 10,
    ackTimeoutMs: 20_000,
    backoff: { minMs: 100, maxMs: 1_000 },
    clock: systemClock,
    log: silentLog,
  });
  replayer.start();
  while (replayer.status(0).connects === 0) await delay(1);
  const startedAt = performance.now();
  while (replayer.status(0).rowsAcknowledged < rows) await delay(1);
  const elapsed = performance.now() - startedAt;
  const { bytesSent, rowsSent } = replayer.status(0);
  await replayer.stop(0);
  if (wan !== cloud) await wan.stop();
  await cloud.stop();
  await store.close();
  return { rows, rttMs, rowsPerSecond: Math.round((rows / elapsed) * 1000), bytesPerReading: bytesSent / rowsSent };
}
