import { Backoff } from '../../lib/backoff.js';
import { sleep } from '../../lib/clock.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import { RateLimit } from '../../lib/log.js';
import type { Driver, DriverContext, LinkStatus, ReaderStatus, WriteCommand, WriteResult } from '../driver.js';
import { BAD_COMM_FAILURE, BAD_NOT_CONNECTED } from '../quality.js';
import { OpcuaDevice } from './device.js';
import { causeOf } from './failure.js';
import type { OpcuaOptions } from './options.js';
import { poll } from './poll.js';
import { Session } from './session.js';
import { loadStack } from './stack.js';
import { type HeldSubscription, subscribe } from './subscription.js';
import { writeTag } from './writer.js';

/**
 * Reads the nodes of one OPC UA server: one session, in it a subscription for each group. The session is opened anew after
 * every loss, by this driver alone; the stack's own reconnecting is off, so that there is one place that decides and no
 * subscription twice.
 */
export class OpcuaDriver implements Driver {
  private readonly options: OpcuaOptions;
  private readonly context: DriverContext;
  private readonly devices: readonly OpcuaDevice[];
  private readonly stopping = new AbortController();
  private readonly complaints = new RateLimit();
  private link: Pick<LinkStatus, 'state' | 'cause'> = { state: 'closed' };
  private connects = 0;
  private session: Session | undefined;
  private running: Promise<void> = Promise.resolve();
  private stopped: Promise<void> | undefined;

  constructor(options: OpcuaOptions, context: DriverContext) {
    this.options = options;
    this.context = context;
    this.devices = options.devices.map((device) => new OpcuaDevice(device, context));
  }

  start(): void {
    this.context.signal.addEventListener('abort', this.onAbort, { once: true });
    if (this.context.signal.aborted) this.onAbort();
    for (const device of this.devices) device.record.refresh();
    this.running = this.run();
  }

  stop(): Promise<void> {
    this.stopped ??= this.end();
    return this.stopped;
  }

  status(): ReaderStatus {
    const target = new URL(this.options.url).host;
    return {
      protocol: 'opcua',
      link: { target, ...this.link, connects: this.connects },
      devices: this.devices.map(({ record }) => record.status()),
    };
  }

  async write({ device, tag: name, value }: WriteCommand, mayStart: () => boolean): Promise<WriteResult> {
    const tag = this.devices.find(({ asset }) => asset === device)?.tag(name);
    if (!tag) return { outcome: 'rejected', code: 'unknown-tag' };
    if (!tag.write) return { outcome: 'rejected', code: 'not-writable' };
    if (!this.session) return { outcome: 'rejected', code: 'not-connected' };
    return writeTag(this.session, tag, value, mayStart);
  }

  private readonly onAbort = (): void => void this.stop();

  private async run(): Promise<void> {
    const backoff = new Backoff(this.options.backoff);
    const { signal } = this.stopping;
    while (!signal.aborted) {
      this.link = { state: 'connecting' };
      try {
        const stack = await loadStack(this.context.log);
        const session = await Session.open(stack, this.options, signal);
        this.session = session;
        this.connects++;
        this.link = { state: 'open' };
        try {
          await this.serve(session, () => backoff.reset());
        } finally {
          this.session = undefined;
          await session.close();
        }
      } catch (error) {
        this.lose(error);
      }
      await sleep(signal.aborted ? 0 : backoff.next(), signal);
    }
    this.link = { state: 'closed' };
  }

  /** Ends when the driver is to stop; throws when the server is lost. */
  private async serve(session: Session, onProven: () => void): Promise<void> {
    const ended = new AbortController();
    const stop = () => ended.abort();
    this.stopping.signal.addEventListener('abort', stop, { once: true });
    if (this.stopping.signal.aborted) stop();
    let lose: (error: HoldfastError) => void = () => {};
    const lost = new Promise<never>((_, reject) => {
      lose = reject;
    });
    lost.catch(() => {});
    const onEnd = (word: string) => lose(new HoldfastError('device.link', 'The server was lost', { values: { word } }));
    void session.lost.then(onEnd);
    const stopped = new Promise<void>((resolve) => {
      if (ended.signal.aborted) resolve();
      ended.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const subscriptions: HeldSubscription[] = [];
    try {
      const work = this.devices.flatMap((device) =>
        device.groups.map((group) =>
          group.mode === 'poll'
            ? poll(session, device, group, this.context, ended.signal)
            : subscribe(session, device, group, this.options, onEnd, ended.signal).then(
                (held) => void subscriptions.push(held),
              ),
        ),
      );
      const all = Promise.all([...work, this.watch(session, subscriptions, ended.signal, onProven)]).then(
        () => stopped,
      );
      all.catch(() => {});
      await Promise.race([all, lost, stopped]);
    } finally {
      this.stopping.signal.removeEventListener('abort', stop);
      stop();
    }
  }

  /** A connection may be silent without end: one whose server does not answer a question in time is lost. */
  private async watch(
    session: Session,
    subscriptions: readonly HeldSubscription[],
    signal: AbortSignal,
    onProven: () => void,
  ): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.options.keepAliveMs, signal);
      if (signal.aborted) return;
      const { rttMs, serverTime } = await session.probe();
      if (subscriptions.some((held) => held.isSilent()))
        throw new HoldfastError('device.timeout', 'A subscription fell silent', {
          values: { word: 'subscription-silent' },
        });
      onProven();
      for (const device of this.devices) {
        device.answered(rttMs);
        device.heartbeat(serverTime);
      }
    }
  }

  private lose(error: unknown): void {
    const cause = causeOf(error);
    this.link = { state: 'backoff', cause };
    if (this.stopping.signal.aborted) return;
    const silent = error instanceof HoldfastError && error.code === 'device.timeout';
    for (const device of this.devices) {
      device.record.failed(error);
      device.goAway(cause, silent ? BAD_COMM_FAILURE : BAD_NOT_CONNECTED);
    }
    const held = this.complaints.pass(cause);
    if (held === undefined) return;
    const hint = error instanceof HoldfastError ? error.hint : undefined;
    const fields = { url: this.options.url, cause, detail: messageOf(error), held, ...(hint ? { hint } : {}) };
    this.context.log.warn(fields, 'An OPC UA server cannot be read');
  }

  private async end(): Promise<void> {
    this.stopping.abort();
    this.context.signal.removeEventListener('abort', this.onAbort);
    const done = new AbortController();
    const giveUp = () => done.abort();
    this.context.signal.addEventListener('abort', giveUp, { once: true });
    if (this.context.signal.aborted) giveUp();
    const orderly = this.running.then(() => Promise.all(this.devices.map((device) => device.idle())));
    void orderly.finally(giveUp);
    await sleep(STOP_MS_MAX, done.signal);
    this.context.signal.removeEventListener('abort', giveUp);
    this.link = { state: 'closed' };
    for (const { record } of this.devices) record.goOffline('stopped');
  }
}

/** Closing the session, and then the spool that takes what was read; a spool that is full would hold it for ever. */
const STOP_MS_MAX = 8000;
