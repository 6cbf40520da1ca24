import { Batcher } from '../bridge/batcher.js';
import { ConfirmedUpstream } from '../bridge/confirmed-upstream.js';
import { goneFrom } from '../bridge/gone.js';
import { HttpUpstream } from '../bridge/http-upstream.js';
import { MqttUpstream } from '../bridge/mqtt-upstream.js';
import { Replayer } from '../bridge/replayer.js';
import type { Upstream } from '../bridge/upstream.js';
import type { GatewayConfig } from '../config/gateway-schema.js';
import { readSecret } from '../config/secret.js';
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { GatewayId } from '../model/ids.js';
import type { Source } from '../model/row.js';
import type { Units } from '../model/unit.js';
import type { Spool } from '../spool/spool.js';
import type { Timings } from './timing.js';

/** The limits are rows and bytes; this one bounds the bookkeeping when each batch holds a row or two. */
const UNCONFIRMED_BATCHES_MAX = 1_000;

/** The way to the cloud that the config describes. It connects when the replayer is started. */
export function openReplayer(config: GatewayConfig, spool: Spool, timings: Timings, clock: Clock, log: Log): Replayer {
  const { upstream } = config;
  const source: Source = { gateway: config.gateway.id as GatewayId, epoch: spool.epoch };
  const { format, compression, ack } = upstream;
  const confirmed = isMqtt(upstream.url) && ack === 'app';
  const batcher = new Batcher({ source, format, compression, asksForAck: confirmed, units: unitsOf(config) });
  return new Replayer({
    spool,
    upstream: timings.upstream(upstreamOf(config, source, spool, batcher, clock, log)),
    batcher,
    batchRowsMax: upstream.batchRowsMax,
    batchBytesMax: upstream.batchBytesMax,
    inFlightMax: confirmed ? UNCONFIRMED_BATCHES_MAX : upstream.inFlightMax,
    lingerMs: upstream.linger,
    ackTimeoutMs: upstream.ackTimeout,
    backoff: { minMs: upstream.backoff.min, maxMs: upstream.backoff.max },
    clock,
    log,
  });
}

function upstreamOf(
  { upstream }: GatewayConfig,
  source: Source,
  spool: Spool,
  batcher: Batcher,
  clock: Clock,
  log: Log,
): Upstream {
  const { url, tls, format, compression, ack, inFlightMax } = upstream;
  if (!isMqtt(url))
    return new HttpUpstream({
      url,
      token: upstream.token && (() => readSecret(upstream.token!)),
      tls,
      source,
      format,
      gzip: compression === 'gzip',
      inFlightMax,
      connectTimeoutMs: upstream.connectTimeout,
    });
  const transport = new MqttUpstream({
    url,
    protocolVersion: upstream.protocolVersion,
    clientId: upstream.clientId,
    username: upstream.username,
    password: upstream.password && readSecret(upstream.password),
    tls,
    topic: upstream.topic,
    ackTopic: ack === 'app' ? upstream.ackTopic : undefined,
    gateway: source.gateway,
    epoch: source.epoch,
    contentType: format === 'columns',
    connectTimeoutMs: upstream.connectTimeout,
    keepaliveMs: upstream.keepalive,
    onNoSubscribers: upstream.onNoSubscribers,
    log,
  });
  if (ack !== 'app') return transport;
  return new ConfirmedUpstream({
    transport,
    source,
    tail: spool.tail,
    inFlightMax,
    unconfirmedRowsMax: upstream.unconfirmedRowsMax,
    unconfirmedBytesMax: upstream.unconfirmedBytesMax,
    ackTimeoutMs: upstream.ackTimeout,
    gone: (ranges) => goneFrom(spool, batcher, ranges),
    clock,
    log,
  });
}

/** What the readers' tags say about their units of measure. */
export function unitsOf({ readers }: Pick<GatewayConfig, 'readers'>): Units {
  const units = new Map<string, Map<string, string>>();
  for (const { asset, groups } of readers.flatMap((reader): readonly UnitDevice[] => reader.devices))
    for (const { name, unit } of groups.flatMap(({ tags }) => tags)) {
      if (unit === undefined) continue;
      units.set(asset, (units.get(asset) ?? new Map<string, string>()).set(name, unit));
    }
  return units;
}

/** What the devices of all protocols have in common here. */
interface UnitDevice {
  readonly asset: string;
  readonly groups: readonly {
    readonly tags: readonly { readonly name: string; readonly unit?: string | undefined }[];
  }[];
}

function isMqtt(url: string): boolean {
  return !/^https?:/.test(url);
}
