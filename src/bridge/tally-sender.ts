import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import type { Spool } from '../spool/spool.js';

/** How often is looked for tallies to send; which ones are due is the spool's to say. */
const LOOK_MS = 10_000;

export interface TallySenderOptions {
  readonly spool: Spool;
  /** Whether the spool takes a new row now: readings need the room more. */
  readonly hasRoom: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** Puts the tallies of the readings into the stream, and at the end all that have not been told yet. */
export class TallySender {
  private readonly options: TallySenderOptions;
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> = Promise.resolve();

  constructor(options: TallySenderOptions) {
    this.options = options;
  }

  start(): void {
    this.timer ??= setInterval(() => this.send(false), LOOK_MS);
  }

  /**
   * Call it when no more readings come in, and before the replayer drains. What cannot be spooled within `budgetMs` is told
   * after the next start; with 0 nothing is tried.
   */
  async close(budgetMs: number): Promise<void> {
    clearInterval(this.timer);
    if (budgetMs <= 0) return;
    const giveUp = new AbortController();
    this.send(true);
    await Promise.race([this.sending, sleep(budgetMs, giveUp.signal)]);
    giveUp.abort();
  }

  private send(all: boolean): void {
    this.sending = this.sending.then(async () => {
      const { spool, hasRoom, clock, log } = this.options;
      if (!hasRoom()) return;
      try {
        while ((await spool.tally(clock.now(), all)) > 0);
      } catch (error) {
        // Nothing is lost: they are sent the next time. The store itself reports what is wrong with it.
        log.debug({ cause: messageOf(error) }, 'Tallies could not be spooled');
      }
    });
  }
}
