import { Backoff, type BackoffOptions } from '../lib/backoff.js';
import { type Clock, sleep, systemClock } from '../lib/clock.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import { topicFilterProblem } from '../wire/topics.js';
import { type Deliver, Subscription } from './subscription.js';
import type { SubscriptionOptions } from './subscription-options.js';

export interface SubscriberOptions extends SubscriptionOptions {
  readonly backoff?: BackoffOptions;
  readonly clock?: Clock;
}

const BACKOFF: BackoffOptions = { minMs: 1000, maxMs: 60_000 };
const PROTOCOLS: ReadonlySet<string> = new Set(['mqtt:', 'mqtts:', 'ws:', 'wss:']);
/** A connection that lasted this long has proved itself; one that ends sooner is met with a longer wait. */
const STABLE_MS = 10_000;

/**
 * Keeps one subscription up for ever: connects, subscribes, delivers, and after any end waits with jitter and tries again.
 * The broker's session holds what is published meanwhile.
 */
export class Subscriber {
  connected = false;
  /** Why there is no connection, or undefined while there is one. */
  problem: string | undefined = 'not connected yet';
  private readonly options: SubscriberOptions;
  private readonly deliver: Deliver;
  private readonly log: Log;
  private readonly clock: Clock;
  private readonly backoff: Backoff;
  private readonly rate = new RateLimit();
  private readonly stop = new AbortController();
  private current: Subscription | undefined;
  private seenBefore = false;
  private running: Promise<void> = Promise.resolve();

  private constructor(options: SubscriberOptions, deliver: Deliver, log: Log) {
    this.options = options;
    this.deliver = deliver;
    this.log = log;
    this.clock = options.clock ?? systemClock;
    this.backoff = new Backoff(options.backoff ?? BACKOFF);
  }

  /** Starts without waiting for the broker, which may be away. Throws `config.invalid` on options that can never work. */
  static open(options: SubscriberOptions, deliver: Deliver, log: Log): Subscriber {
    validate(options);
    const subscriber = new Subscriber(options, deliver, log);
    subscriber.running = subscriber.run();
    return subscriber;
  }

  /** Finishes what has arrived within `budgetMs`; what is not finished comes again at the next start. */
  async close(budgetMs: number): Promise<void> {
    this.stop.abort();
    await this.current?.close(budgetMs);
    await this.running;
  }

  /** Rejects with `upstream.lost` when there is no connection, or none any more. */
  async publish(topic: string, payload: Buffer): Promise<void> {
    if (!this.current) throw new HoldfastError('upstream.lost', 'not connected');
    await this.current.publish(topic, payload);
  }

  private async run(): Promise<void> {
    const { signal } = this.stop;
    while (!signal.aborted) {
      this.problem = await this.attempt();
      this.connected = false;
      this.current = undefined;
      if (signal.aborted) return;
      const waitMs = this.backoff.next();
      const held = this.rate.pass(this.problem);
      if (held !== undefined)
        this.log.warn({ reason: this.problem, waitMs: Math.round(waitMs), held }, 'Not connected to the broker');
      await sleep(waitMs, signal);
    }
  }

  /** One connection from dial to end; why it ended. */
  private async attempt(): Promise<string> {
    const { signal } = this.stop;
    try {
      const subscription = await Subscription.open(this.options, this.deliver, signal);
      this.current = subscription;
      this.connected = true;
      this.problem = undefined;
      this.welcome(subscription.sessionPresent);
      if (signal.aborted) await subscription.close(0);
      const since = this.clock.mono();
      const reason = await subscription.closed;
      if (this.clock.mono() - since >= STABLE_MS) this.backoff.reset();
      return reason;
    } catch (error) {
      return messageOf(error);
    }
  }

  private welcome(sessionPresent: boolean): void {
    const { url, clientId, topics } = this.options;
    this.log.info({ url, clientId, topics, sessionPresent }, 'Subscribed');
    if (this.seenBefore && !sessionPresent)
      this.log.warn(
        { clientId },
        'The broker has forgotten the session; batches it had acknowledged may show as holes',
      );
    this.seenBefore = true;
  }
}

function validate({ url, clientId, topics }: SubscriberOptions): void {
  const problem =
    (PROTOCOLS.has(URL.canParse(url) ? new URL(url).protocol : '')
      ? undefined
      : `"${url}" is no address of a broker`) ??
    (clientId === '' ? 'a session needs a client id' : undefined) ??
    (topics.length === 0 ? 'there is no topic to subscribe to' : undefined) ??
    topics.map((topic) => topicFilterProblem(topic)).find((found) => found !== undefined);
  if (problem)
    throw new HoldfastError('config.invalid', `Cannot subscribe: ${problem}`, { values: { url, clientId, topics } });
}
