import type { Millis } from '../model/ids.js';
import type { UpstreamStatus } from '../model/status.js';

/** The few numbers a chart needs of one moment. A rate is NaN when it is not known. */
export interface Sample {
  readonly t: Millis;
  readonly rows: number;
  readonly bytes: number;
  readonly oldestAgeMs: number;
  /** Rows per second that became durable since the sample before. */
  readonly receivedPerS: number;
  /** Rows per second that the cloud acknowledged since the sample before. */
  readonly acknowledgedPerS: number;
  readonly upstream: UpstreamStatus['state'];
}

/** Column by column, oldest first, every array of one length; `t` rises strictly. */
export type HistoryColumns = { readonly [Column in keyof Sample]: readonly Sample[Column][] };

const NUMBERS = ['t', 'rows', 'bytes', 'oldestAgeMs', 'receivedPerS', 'acknowledgedPerS'] as const;
type NumberColumn = (typeof NUMBERS)[number];

/**
 * The last `capacity` samples in a ring that never grows: 48 bytes and one shared string each, so 30 minutes of seconds
 * take about 100 KiB.
 */
export class History {
  readonly capacity: number;
  private readonly numbers: Readonly<Record<NumberColumn, Float64Array>>;
  private readonly upstream: Sample['upstream'][] = [];
  private count = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    const column = () => new Float64Array(capacity);
    this.numbers = {
      t: column(),
      rows: column(),
      bytes: column(),
      oldestAgeMs: column(),
      receivedPerS: column(),
      acknowledgedPerS: column(),
    };
  }

  get size(): number {
    return Math.min(this.count, this.capacity);
  }

  /** Adds a sample and forgets the oldest when full; forgets all when the machine's clock was set back. */
  push(sample: Sample): void {
    const last = this.numbers.t[(this.count - 1) % this.capacity];
    if (this.count > 0 && last !== undefined && sample.t <= last) this.count = 0;
    const at = this.count % this.capacity;
    for (const name of NUMBERS) this.numbers[name][at] = sample[name];
    this.upstream[at] = sample.upstream;
    this.count++;
  }

  columns(): HistoryColumns {
    const start = this.count > this.capacity ? this.count % this.capacity : 0;
    const order = Array.from({ length: this.size }, (_, i) => (start + i) % this.capacity);
    const numbers = NUMBERS.map((name) => [name, order.map((at) => this.numbers[name][at])]);
    return {
      ...(Object.fromEntries(numbers) as Pick<HistoryColumns, NumberColumn>),
      upstream: order.map((at) => this.upstream[at] as Sample['upstream']),
    };
  }
}
