import type { Epoch, GatewayId, Millis, Seq } from '../../src/model/ids.js';
import type { GatewayStatus, ReaderStatus } from '../../src/model/status.js';

/** A deep partial of the parts that a test wants to say; everything else is that of a gateway that runs well. */
export interface StatusParts extends Partial<Omit<GatewayStatus, 'spool' | 'upstream' | 'broker'>> {
  readonly spool?: Partial<GatewayStatus['spool']>;
  readonly upstream?: Partial<GatewayStatus['upstream']>;
  readonly broker?: Partial<GatewayStatus['broker']>;
}

const STARTED_AT = (Date.now() - 86_400_000) as Millis;

/** A consistent snapshot for tests of what shows one. */
export function gatewayStatus(parts: StatusParts = {}): GatewayStatus {
  const now = (parts.now ?? Date.now()) as Millis;
  const { spool, upstream, broker, ...rest } = parts;
  return {
    gateway: 'line-1' as GatewayId,
    version: '0.1.0',
    now,
    startedAt: STARTED_AT,
    state: 'ok',
    causes: [],
    readers: [readerStatus({ since: (now - 3_600_000) as Millis, lastOkAt: now })],
    ...rest,
    clock: { steps: 0, lastStepMs: null, lastStepAt: null, ...rest.clock },
    spool: {
      state: 'open',
      sqlite: '3.53.2',
      trustsPowersafeOverwrite: true,
      epoch: '7f3a90c1' as Epoch,
      rows: 12,
      bytes: 1_440,
      received: 8_412_003,
      acknowledged: 8_411_991,
      dead: 0,
      dropped: 0,
      balanced: true,
      head: 8_411_992 as Seq,
      tail: 8_412_003 as Seq,
      oldestAgeMs: 640,
      fileBytes: 4_194_304,
      bytesMax: 2_147_483_648,
      usedShare: 0.002,
      secondsUntilFull: 1_296_000,
      hoursLeft: 360,
      heldMessages: 0,
      toSalvage: 0,
      ...spool,
    },
    upstream: {
      state: 'online',
      since: (now - 7_200_000) as Millis,
      cause: null,
      url: 'mqtts://cloud.example:8883',
      batchesInFlight: 1,
      rowsSent: 8_412_000,
      rowsAcknowledged: 8_411_991,
      bytesSent: 46_266_000,
      connects: 3,
      lastAckAt: (now - 300) as Millis,
      drainEtaMs: null,
      ...upstream,
    },
    broker: {
      addresses: ['mqtt://127.0.0.1:1883', 'ws://127.0.0.1:9001'],
      clients: 6,
      connecting: 0,
      connections: 14,
      turnedAway: 0,
      takeovers: 1,
      sessions: 9,
      subscriptions: 24,
      retained: 118,
      retainedBytes: 14_200,
      received: 8_500_000,
      sent: 25_800_000,
      queuedRows: 0,
      queuedBytes: 0,
      pausedClients: 0,
      failedLogins: 0,
      dropped: { 'too-large': 0, acl: 0, 'qos0-overload': 0 },
      ...broker,
    },
  };
}

export function readerStatus(parts: Partial<ReaderStatus> = {}): ReaderStatus {
  return {
    asset: 'filler-1',
    url: 'tcp://192.0.2.20:502',
    state: 'online',
    since: (Date.now() - 3_600_000) as Millis,
    cause: null,
    lastOkAt: Date.now() as Millis,
    readings: 1_204_332,
    rttMsP50: 2.4,
    rttMsP99: 11.8,
    timeouts: 0,
    exceptions: 0,
    lateAnswers: 0,
    missedCycles: 0,
    link: { state: 'open', cause: null, connects: 1 },
    gaps: 0,
    ...parts,
  };
}
