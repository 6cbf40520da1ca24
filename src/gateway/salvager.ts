import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import type { SpoolInput } from '../model/row.js';
import type { DamageReport, Spool } from '../spool/spool.js';

/** How often is looked whether there is room again. */
const ROOM_LOOK_MS = 500;
const PROGRESS_MS = 10_000;

export interface SalvagerOptions {
  readonly spool: Spool;
  /** Whether the spool takes more without giving anything up for it. */
  readonly hasRoom: () => boolean;
  /** What the stream says of a damage. */
  readonly gaps: (report: DamageReport) => readonly SpoolInput[];
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * After a start on a damaged file: fetches what the start has left of it, beside the plant's messages and at most half of
 * the time, and then puts into the stream what is missing. Nobody waits for it, and what a stop cuts short goes on after
 * the next start.
 */
export class Salvager {
  private readonly options: SalvagerOptions;
  private readonly stop = new AbortController();

  constructor(options: SalvagerOptions) {
    this.options = options;
  }

  start(): void {
    const { log } = this.options;
    this.run(this.stop.signal).catch((error) =>
      log.warn({ cause: messageOf(error) }, 'What a damaged spool file held could not be read or told to its end yet'),
    );
  }

  close(): void {
    this.stop.abort();
  }

  private async run(signal: AbortSignal): Promise<void> {
    const { spool, hasRoom, clock, log } = this.options;
    await this.tell();
    let toldAt = Number.NEGATIVE_INFINITY;
    while (spool.toSalvage > 0 && !signal.aborted) {
      if (clock.mono() - toldAt >= PROGRESS_MS) {
        log.info({ left: spool.toSalvage }, 'The rest of a damaged spool file is read while the gateway runs');
        toldAt = clock.mono();
      }
      if (!hasRoom()) {
        await sleep(ROOM_LOOK_MS, signal);
        continue;
      }
      const since = clock.mono();
      if ((await spool.salvage()) === 0) await this.tell();
      await sleep(clock.mono() - since, signal);
    }
  }

  /** On a full device this waits for room like everything else. */
  private async tell(): Promise<void> {
    const { spool, gaps, log } = this.options;
    for (let damage = await spool.damage(); damage; damage = await spool.damage()) {
      const { id, report } = damage;
      await spool.tellDamage(id, gaps(report));
      const { salvaged, missing, folder } = report;
      log.warn({ salvaged, missing, folder }, 'A damaged spool file has been read to its end');
    }
  }
}
