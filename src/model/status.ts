import type { Epoch, GatewayId, Millis, Seq } from './ids.js';

/** What the gateway knows of itself at one moment: the status page, `/status` and the terminal all show this. */
export interface GatewayStatus {
  readonly gateway: GatewayId;
  readonly version: string;
  readonly now: Millis;
  readonly startedAt: Millis;
  /** `degraded`: something outside is down and nothing is lost. `failed`: nothing is acknowledged any more. */
  readonly state: 'ok' | 'degraded' | 'failed';
  /** In words, the reasons why the state is not `ok`. */
  readonly causes: readonly string[];
  readonly clock: ClockStatus;
  readonly spool: SpoolStatus;
  readonly upstream: UpstreamStatus;
  readonly broker: BrokerStatus;
  readonly readers: readonly ReaderStatus[];
}

/** Steps of the machine's clock since the start; forward is positive. Each is a record in the stream, too. */
export interface ClockStatus {
  readonly steps: number;
  readonly lastStepMs: number | null;
  readonly lastStepAt: Millis | null;
}

export interface SpoolStatus {
  readonly state: 'open' | 'full' | 'failed';
  /** The version of SQLite in this build, and whether it trusts that a torn write harms no neighbouring bytes. */
  readonly sqlite: string;
  readonly trustsPowersafeOverwrite: boolean;
  readonly epoch: Epoch;
  /** Not yet acknowledged by the cloud. */
  readonly rows: number;
  readonly bytes: number;
  /** Since the file was made. `received = rows + acknowledged + dropped + dead` always; `balanced` says whether it holds. */
  readonly received: number;
  readonly acknowledged: number;
  /** Rows that the cloud can never take, set aside. */
  readonly dead: number;
  /** Rows given up because the spool was full; gap records say which. */
  readonly dropped: number;
  readonly balanced: boolean;
  readonly head: Seq;
  readonly tail: Seq;
  readonly oldestAgeMs: number;
  readonly fileBytes: number;
  readonly bytesMax: number;
  /** Of what messages may take, 0 to 1. */
  readonly usedShare: number;
  /** Until nothing fits any more if the cloud went away now, at the rate of the last minutes; null: nothing comes in. */
  readonly secondsUntilFull: number | null;
  readonly hoursLeft: number | null;
  /** Messages that wait for room, unacknowledged. */
  readonly heldMessages: number;
  /** Seqs of a damaged file that are still to be looked at. */
  readonly toSalvage: number;
}

export interface UpstreamStatus {
  /** `held`: connected, but the cloud takes nothing and says why. `stalled`: connected and silent. */
  readonly state: 'connecting' | 'online' | 'stalled' | 'held' | 'backoff' | 'stopped';
  readonly since: Millis;
  readonly cause: string | null;
  readonly url: string;
  readonly batchesInFlight: number;
  readonly rowsSent: number;
  readonly rowsAcknowledged: number;
  readonly bytesSent: number;
  readonly connects: number;
  readonly lastAckAt: Millis | null;
  /** With `ack: app`: the consumer's statements since the start, by whether they were believed, and if not, why. */
  readonly acks?: Readonly<Record<string, number>>;
  /** At the present rates of what comes in and what is acknowledged; null when it does not shrink. */
  readonly drainEtaMs: number | null;
}

export interface BrokerStatus {
  readonly addresses: readonly string[];
  readonly clients: number;
  /** Connections that have not been accepted yet, those taken since the start, and those turned away at the door. */
  readonly connecting: number;
  readonly connections: number;
  readonly turnedAway: number;
  /** Sessions that were taken over from a connection that was still open. */
  readonly takeovers: number;
  readonly sessions: number;
  readonly subscriptions: number;
  readonly retained: number;
  readonly retainedBytes: number;
  readonly received: number;
  readonly sent: number;
  readonly queuedRows: number;
  readonly queuedBytes: number;
  readonly pausedClients: number;
  /** Clients that were not let in, since the start. */
  readonly failedLogins: number;
  /** By reason, each present from the start. */
  readonly dropped: Readonly<Record<string, number>>;
}

export interface ReaderStatus {
  readonly asset: string;
  readonly url: string;
  readonly state: 'online' | 'degraded' | 'offline' | 'starting';
  readonly since: Millis;
  readonly cause: string | null;
  readonly lastOkAt: Millis | null;
  readonly readings: number;
  readonly rttMsP50: number | null;
  readonly rttMsP99: number | null;
  readonly timeouts: number;
  readonly exceptions: number;
  readonly lateAnswers: number;
  readonly missedCycles: number;
  /** The connection that it shares with the other devices behind it. */
  readonly link: { readonly state: string; readonly cause: string | null; readonly connects: number };
  /** Outages recorded as gaps. */
  readonly gaps: number;
}
