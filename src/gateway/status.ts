import type { Intake } from '../bridge/intake.js';
import type { Replayer } from '../bridge/replayer.js';
import type { Broker } from '../broker/broker.js';
import type { GatewayConfig } from '../config/gateway-schema.js';
import type { Clock } from '../lib/clock.js';
import { version } from '../lib/version.js';
import type { GatewayId, Millis } from '../model/ids.js';
import type { GatewayStatus, SpoolStatus } from '../model/status.js';
import type { Spool } from '../spool/spool.js';
import type { Store } from '../store/store.js';
import type { ClockWatch } from './clock-watch.js';
import type { ReaderSet } from './reader-set.js';
import type { SpoolRoom } from './spool-room.js';

export interface StatusSources {
  readonly config: GatewayConfig;
  readonly startedAt: Millis;
  readonly clock: Clock;
  readonly watch: ClockWatch;
  readonly store: Store;
  readonly spool: Spool;
  readonly room: SpoolRoom;
  readonly replayer: Replayer;
  readonly intake: Intake;
  readonly broker: Broker;
  readonly readers: ReaderSet;
}

/** One snapshot of everything, taken in one turn so that its numbers agree with each other. */
export async function gatewayStatus(sources: StatusSources): Promise<GatewayStatus> {
  const { config, startedAt, clock, watch, store, room, replayer, intake, broker, readers } = sources;
  const stats = await sources.spool.stats();
  const full = store.state === 'full' || room.problem !== undefined;
  const secondsUntilFull = await room.secondsUntilFull();
  const { unreadable, lastProblem, heldMessages } = intake.stats();
  const spool: SpoolStatus = {
    state: store.state === 'failed' || store.state === 'closed' ? 'failed' : full ? 'full' : 'open',
    sqlite: store.sqlite,
    trustsPowersafeOverwrite: store.trustsPowersafeOverwrite,
    epoch: stats.epoch,
    rows: stats.rows,
    bytes: stats.bytes,
    received: stats.received,
    acknowledged: stats.acknowledged,
    dead: stats.dead,
    dropped: stats.dropped,
    balanced: stats.balanced,
    head: stats.head,
    tail: stats.tail,
    oldestAgeMs: stats.oldestAgeMs,
    fileBytes: stats.fileBytes,
    bytesMax: config.spool.bytesMax,
    usedShare: room.usedShare,
    secondsUntilFull,
    hoursLeft: secondsUntilFull === null ? null : secondsUntilFull / 3_600,
    heldMessages,
    toSalvage: sources.spool.toSalvage,
  };
  const upstream = replayer.status(stats.rows);
  const devices = readers.status();
  const causes = [
    spool.state === 'failed' && 'the spool file failed: nothing is acknowledged any more, see the log',
    !spool.balanced && 'the accounting of the spool does not add up: rows are missing or counted twice',
    spool.toSalvage > 0 && `a damaged spool file is being read: ${spool.toSalvage} numbers of it are left`,
    full && `acknowledgements wait: ${room.problem ?? 'the device is full'}`,
    !full && room.alarm > 0 && `the spool is ${Math.floor(room.usedShare * 100)} % full`,
    stats.dropped > 0 && `${stats.dropped} rows were dropped because the spool was full`,
    stats.dead > 0 && `${stats.dead} messages are set aside, because the upstream cannot take them`,
    upstream.state !== 'online' && `upstream ${upstream.state}${upstream.cause ? `: ${upstream.cause}` : ''}`,
    unreadable > 0 &&
      `${unreadable} messages in reading topics are no readings and travel as they are (${lastProblem})`,
    ...devices
      .filter(({ state }) => state === 'offline' || state === 'degraded')
      .map(({ asset, state, cause }) => `${asset} is ${state}${cause ? `: ${cause}` : ''}`),
  ].filter((cause) => cause !== false);
  return {
    gateway: config.gateway.id as GatewayId,
    version,
    now: clock.now(),
    startedAt,
    state: spool.state === 'failed' || !spool.balanced ? 'failed' : causes.length > 0 ? 'degraded' : 'ok',
    causes,
    clock: watch.status(),
    spool,
    upstream,
    broker: { addresses: broker.addresses, ...broker.status() },
    readers: devices,
  };
}
