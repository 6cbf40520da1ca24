/** How fast one client may publish. It is slowed and not refused: what it has sent is taken, only later. */
import type { BrokerLimits } from './limits.js';
import { TokenBucket } from './token-bucket.js';

/** A client that was quiet may send this many seconds' worth at once. */
const BURST_S = 1;
/** A slowed client goes on in bursts of at least this long: a timer for each message would cost more than the message. */
const PAUSE_MS_MIN = 20;

export class ClientRate {
  private readonly messages: TokenBucket;
  private readonly bytes: TokenBucket;

  private constructor(limits: BrokerLimits) {
    this.messages = new TokenBucket(limits.clientMessageRateMax, BURST_S);
    this.bytes = new TokenBucket(limits.clientByteRateMax, BURST_S);
  }

  /** Null where there is no limit, which is the default. */
  static of(limits: BrokerLimits): ClientRate | null {
    const isLimited = Number.isFinite(limits.clientMessageRateMax) || Number.isFinite(limits.clientByteRateMax);
    return isLimited ? new ClientRate(limits) : null;
  }

  /** A PUBLISH has come; returns for how many ms nothing more is to be read. `now` in monotonic ms. */
  take(bytes: number, now: number): number {
    const ms = Math.max(this.messages.spend(1, now), this.bytes.spend(bytes, now));
    return ms > 0 ? Math.max(ms, PAUSE_MS_MIN) : 0;
  }
}
