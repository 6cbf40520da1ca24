import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import { qualityText } from '../wire/quality.js';
import type { CommandMemory, CommandOutcome } from './command-memory.js';
import { CLOCKS_APART_MS_MAX, type Command, parseCommand } from './command-message.js';
import type { Driver, WriteResult } from './driver.js';
import type { Sink } from './reporter.js';

export interface CommandDeskOptions {
  readonly driver: Pick<Driver, 'write'>;
  /** The assets that the driver has; only their commands are remembered and told of here. */
  readonly assets: ReadonlySet<string>;
  readonly memory: CommandMemory;
  readonly sink: Sink;
  readonly resultTopicOf: (asset: string, metric: string) => string;
  readonly ttlMaxMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface CommandMessage {
  readonly asset: string;
  readonly metric: string;
  readonly payload: Uint8Array;
  readonly retain: boolean;
}

type Target = Pick<CommandMessage, 'asset' | 'metric'>;

/**
 * Carries out commands to write a tag (see `Command`), and publishes the outcome of each.
 *
 * - A command is carried out at most once, over all lives of the program. It is noted durably before anything is sent, and
 *   its id is remembered for as long as it could come again; a repeat gets the outcome of the first. One that a crash
 *   interrupted is told as `unknown`, and never begun anew.
 * - A command has an end. One that lay in a queue is expired, and does not start a pump hours later.
 * - A retained command would be carried out anew at every start, and is rejected.
 */
export class CommandDesk {
  private readonly options: CommandDeskOptions;
  private readonly complaints = new RateLimit();
  private readonly known = new Map<
    string,
    { readonly outcome: Promise<CommandOutcome>; readonly validUntil: number }
  >();
  private readonly running = new Set<Promise<void>>();
  private closed = false;
  private gaveUp = false;

  constructor(options: CommandDeskOptions) {
    this.options = options;
  }

  /** Takes up what earlier lives left, and tells of what they did not end. */
  start(): void {
    for (const [key, { validUntil, outcome }] of this.options.memory.begun) {
      const [asset, metric, id] = JSON.parse(key) as [string, string, string];
      if (!this.options.assets.has(asset)) continue;
      const known: CommandOutcome = outcome ?? { id, outcome: 'unknown', code: 'interrupted' };
      this.known.set(key, { outcome: Promise.resolve(known), validUntil });
      if (outcome) continue;
      this.options.memory.end(key, { validUntil, outcome: known });
      this.run(this.tell({ asset, metric }, known));
    }
    this.forget();
  }

  /** Takes a command in; what becomes of it is published. */
  offer(message: CommandMessage): void {
    if (!this.closed) this.run(this.outcomeOf(message).then((outcome) => this.tell(message, outcome)));
  }

  /** Takes no more, and ends when the outcomes of those under way are published, or when they take too long. */
  async close(hurry?: AbortSignal): Promise<void> {
    this.closed = true;
    const ended = new AbortController();
    hurry?.addEventListener('abort', () => ended.abort(), { once: true });
    if (hurry?.aborted) ended.abort();
    void Promise.all(this.running).then(() => ended.abort());
    await sleep(CLOSE_MS_MAX, ended.signal);
    this.gaveUp = true;
  }

  private run(work: Promise<void>): void {
    const running = work.finally(() => this.running.delete(running));
    this.running.add(running);
  }

  private async outcomeOf(message: CommandMessage): Promise<CommandOutcome> {
    const { clock, memory, ttlMaxMs } = this.options;
    const command = parseCommand(message.payload, clock.now(), ttlMaxMs);
    if (typeof command === 'string') return rejected(null, 'malformed', command);
    const { id, ts, ttlMs } = command;
    const key = JSON.stringify([message.asset, message.metric, id]);
    const earlier = this.known.get(key);
    if (earlier) return earlier.outcome;
    if (message.retain) return rejected(id, 'retained', 'a command must not be retained');
    const validUntil = ts + ttlMs;
    if (clock.now() > validUntil) return { id, outcome: 'expired' };
    if (ts < memory.completeSince)
      return { id, outcome: 'unknown', code: 'no-memory', detail: 'issued before the memory of commands begins' };
    this.forget();
    if (this.known.size >= KNOWN_MAX) return rejected(id, 'too-many', `more than ${KNOWN_MAX} commands are remembered`);
    const outcome = this.carryOut(message, command, key, validUntil);
    this.known.set(key, { outcome, validUntil });
    return outcome;
  }

  private async carryOut(target: Target, command: Command, key: string, validUntil: number): Promise<CommandOutcome> {
    const { clock, driver, memory } = this.options;
    const { id, value } = command;
    try {
      await memory.begin(key, validUntil);
    } catch (error) {
      return rejected(id, 'not-durable', messageOf(error));
    }
    const mayStart = () => !this.gaveUp && clock.now() <= validUntil;
    const outcome = outcomeFrom(id, await driver.write({ device: target.asset, tag: target.metric, value }, mayStart));
    memory.end(key, { validUntil, outcome });
    return outcome;
  }

  /** What can no longer come again in time needs no remembering, not even when the clock is set back a little. */
  private forget(): void {
    const now = this.options.clock.now();
    for (const [key, { validUntil }] of this.known) {
      if (validUntil + CLOCKS_APART_MS_MAX >= now) continue;
      this.known.delete(key);
      this.options.memory.forget(key);
    }
  }

  private async tell({ asset, metric }: Target, outcome: CommandOutcome): Promise<void> {
    const { sink, resultTopicOf, clock, log } = this.options;
    const { id, outcome: word, code } = outcome;
    log.info({ asset, metric, id, outcome: word, ...(code ? { code } : {}) }, 'A command was dealt with');
    const payload = Buffer.from(JSON.stringify({ ...outcome, ts: clock.now() }));
    const message = { topic: resultTopicOf(asset, metric), payload, qos: 1, retain: false, props: null } as const;
    for (let tries = 1; ; tries++) {
      try {
        await sink.publish([{ message, identity: null }]);
        return;
      } catch (error) {
        if (this.complaints.pass('publish') !== undefined)
          log.error({ asset, metric, detail: messageOf(error) }, 'The outcome of a command could not be published');
        if (tries >= PUBLISH_TRIES || this.closed) return;
        await sleep(PUBLISH_WAIT_MS);
      }
    }
  }
}

const rejected = (id: string | null, code: string, detail: string): CommandOutcome => ({
  id,
  outcome: 'rejected',
  code,
  detail,
});

function outcomeFrom(id: string, { readBack, ...rest }: WriteResult): CommandOutcome {
  if (!readBack) return { id, ...rest };
  return { id, ...rest, readBack: { value: jsonSafe(readBack.value), quality: qualityText(readBack.quality) } };
}

/** An integer that no double holds is written out as text. */
function jsonSafe(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

/** More commands than a person or a recipe gives within the longest time to live. */
const KNOWN_MAX = 10_000;
const PUBLISH_TRIES = 5;
const PUBLISH_WAIT_MS = 500;
/** A device answers within its timeout; only a full device would hold an outcome for longer. */
const CLOSE_MS_MAX = 5000;
