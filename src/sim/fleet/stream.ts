import { TALLY_HOUR_MS, TALLY_MODULUS, tallyTerm } from '../../model/tally.js';
import type { FleetRow } from './encoding.js';

interface Counted {
  first: number;
  last: number;
  count: number;
  checksum: number;
}

export interface StreamOptions {
  readonly asset: string;
  readonly metrics: number;
  readonly intervalMs: number;
  /** Device time of the first scan. */
  readonly startTs: number;
}

/** What one gateway has to send, in the order of seq: scans of its metrics, and after each hour the tallies of that hour. */
export class Stream {
  private readonly options: StreamOptions;
  private seq = 0;
  private scan = 0;
  private metric = 0;
  private hour: number;
  private counted: Counted[] = [];
  private told = false;
  readings = 0;

  constructor(options: StreamOptions) {
    this.options = options;
    this.hour = hourOf(options.startTs);
  }

  /** Up to `max` rows with device times up to `now`; when `last` is set, the tallies of the hour that has begun end it. */
  take(max: number, now: number, last: boolean): FleetRow[] {
    const rows: FleetRow[] = [];
    while (rows.length < max) {
      const ts = this.nextTs;
      if (ts > now) {
        if (last && !this.told) rows.push(this.tell(now));
        this.told ||= last;
        break;
      }
      if (hourOf(ts) !== this.hour) {
        rows.push(this.tell(ts));
        this.hour = hourOf(ts);
        continue;
      }
      rows.push(this.read(ts));
    }
    return rows;
  }

  /** Device time of the next scan. */
  get nextTs(): number {
    return this.options.startTs + this.scan * this.options.intervalMs;
  }

  private read(ts: number): FleetRow {
    const { metric } = this;
    const seq = ++this.seq;
    const value = 20 + 5 * Math.sin(this.scan / 60 + metric);
    this.counted[metric] ??= { first: seq, last: seq, count: 0, checksum: 0 };
    const counted = this.counted[metric] as Counted;
    counted.last = seq;
    counted.count++;
    counted.checksum = (counted.checksum + tallyTerm(seq, ts - this.hour)) % TALLY_MODULUS;
    this.readings++;
    if (++this.metric === this.options.metrics) {
      this.metric = 0;
      this.scan++;
    }
    return { seq, ts, metric, value };
  }

  private tell(ts: number): FleetRow {
    const { asset } = this.options;
    const tallies = this.counted.map(({ first, last, count, checksum }, metric) => [
      asset,
      `m${metric}`,
      this.hour,
      first,
      last,
      count,
      checksum,
    ]);
    const payload = Buffer.from(JSON.stringify({ upTo: this.seq, tallies }));
    this.counted = [];
    return { seq: ++this.seq, ts, metric: payload, value: 0 };
  }
}

function hourOf(ts: number): number {
  return ts - (ts % TALLY_HOUR_MS);
}
