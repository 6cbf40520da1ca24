import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import { JsonProblem, JsonScanner, type WideJson } from '../wire/json-scan.js';
import { qualityText } from '../wire/quality.js';
import type { Driver, WriteResult } from './driver.js';
import type { Sink } from './reporter.js';

export interface CommandDeskOptions {
  readonly driver: Pick<Driver, 'write'>;
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

interface Command {
  readonly id: string;
  readonly value: WideJson;
  readonly validUntil: number;
}

type Outcome = WriteResult & { readonly id: string | null };

/**
 * Carries out commands to write a tag: `{"id": "…", "ts": ms, "ttl"?: ms, "value": v}`, and publishes the outcome of each.
 *
 * - A command is carried out at most once. Its id is remembered for as long as it could come again; a repeat gets the
 *   outcome of the first. What was issued before this program started may have been carried out by its predecessor.
 * - A command has an end. One that lay in a queue is expired, and does not start a pump hours later.
 * - A retained command would be carried out anew at every start, and is rejected.
 */
export class CommandDesk {
  private readonly options: CommandDeskOptions;
  private readonly startedAt: Millis;
  private readonly complaints = new RateLimit();
  private readonly known = new Map<string, { readonly outcome: Promise<Outcome>; readonly validUntil: number }>();
  private readonly running = new Set<Promise<void>>();
  private closed = false;

  constructor(options: CommandDeskOptions) {
    this.options = options;
    this.startedAt = options.clock.now();
  }

  /** Takes a command in; what becomes of it is published. */
  offer(message: CommandMessage): void {
    if (this.closed) return;
    const work = this.carryOut(message).finally(() => this.running.delete(work));
    this.running.add(work);
  }

  /** Takes no more, and ends when the outcomes of those under way are published. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.running);
  }

  private async carryOut(message: CommandMessage): Promise<void> {
    const outcome = await this.outcomeOf(message);
    const { asset, metric } = message;
    const { id, outcome: word, code } = outcome;
    this.options.log.info({ asset, metric, id, outcome: word, ...(code ? { code } : {}) }, 'A command was dealt with');
    await this.publish(message, outcome);
  }

  private outcomeOf(message: CommandMessage): Promise<Outcome> {
    const { clock, driver } = this.options;
    const command = this.parse(message.payload);
    if (typeof command === 'string') return rejected(null, 'malformed', command);
    const { id, value, validUntil } = command;
    const key = JSON.stringify([message.asset, message.metric, id]);
    const earlier = this.known.get(key);
    if (earlier) return earlier.outcome;
    if (message.retain) return rejected(id, 'retained', 'a command must not be retained');
    const isValid = () => clock.now() <= validUntil;
    if (!isValid()) return Promise.resolve({ id, outcome: 'expired' });
    this.forget();
    if (this.known.size >= KNOWN_MAX) return rejected(id, 'too-many', `more than ${KNOWN_MAX} commands are remembered`);
    const write = { device: message.asset, tag: message.metric, value };
    const outcome = driver.write(write, isValid).then((result) => ({ id, ...result }));
    this.known.set(key, { outcome, validUntil });
    return outcome;
  }

  private parse(payload: Uint8Array): Command | string {
    const { clock, ttlMaxMs } = this.options;
    const scanner = new JsonScanner();
    let json: WideJson;
    try {
      scanner.start(payload);
      json = scanner.value();
      scanner.finish();
    } catch (error) {
      if (error instanceof JsonProblem) return error.problem;
      throw error;
    }
    if (json === null || typeof json !== 'object' || Array.isArray(json)) return 'is no object';
    const { id, ts, ttl = ttlMaxMs, value } = json;
    if (typeof id !== 'string' || id.length === 0 || id.length > ID_CHARS_MAX)
      return `id is no text of 1 to ${ID_CHARS_MAX} characters`;
    if (typeof ts !== 'number' || !Number.isSafeInteger(ts)) return 'ts is not a whole number of milliseconds';
    if (typeof ttl !== 'number' || !(ttl > 0 && ttl <= ttlMaxMs)) return `ttl is not from 1 to ${ttlMaxMs} ms`;
    if (value === undefined) return 'value is missing';
    if (ts > clock.now() + CLOCKS_APART_MS_MAX) return 'ts is in the future';
    return { id, value, validUntil: ts < this.startedAt ? ts : ts + ttl };
  }

  /** What can no longer come again in time needs no remembering. */
  private forget(): void {
    const now = this.options.clock.now();
    for (const [key, { validUntil }] of this.known) if (validUntil < now) this.known.delete(key);
  }

  private async publish({ asset, metric }: CommandMessage, { readBack, ...rest }: Outcome): Promise<void> {
    const { sink, resultTopicOf, clock, log } = this.options;
    const seen = readBack && { value: jsonSafe(readBack.value), quality: qualityText(readBack.quality) };
    const payload = Buffer.from(JSON.stringify({ ...rest, ts: clock.now(), ...(seen ? { readBack: seen } : {}) }));
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

const rejected = (id: string | null, code: string, detail: string): Promise<Outcome> =>
  Promise.resolve({ id, outcome: 'rejected', code, detail });

/** An integer that no double holds is written out as text. */
function jsonSafe(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

const ID_CHARS_MAX = 128;
/** More commands than a person or a recipe gives within the longest time to live. */
const KNOWN_MAX = 10_000;
/** Clocks in a plant that are kept by NTP at all are closer than this. */
const CLOCKS_APART_MS_MAX = 60_000;
const PUBLISH_TRIES = 5;
const PUBLISH_WAIT_MS = 500;
