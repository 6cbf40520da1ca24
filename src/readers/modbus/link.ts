import { assertNever } from '../../lib/assert.js';
import { Backoff } from '../../lib/backoff.js';
import { type Clock, sleep } from '../../lib/clock.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import { type Log, RateLimit } from '../../lib/log.js';
import type { LinkStatus } from '../driver.js';
import { Gate } from '../gate.js';
import { ModbusClient } from './client.js';
import { causeOf, exceptionCodeOf } from './device-error.js';
import { byteTimeMsOf, type Endpoint, frameGapMsOf, targetOf } from './endpoint.js';
import { LinkCost } from './link-cost.js';
import { type LinkEvent, type LinkState, nextLinkState } from './link-state.js';
import { dataBytesOf, type ReadRequest, type WriteRequest } from './requests.js';
import { Resync } from './resync.js';
import { Turns } from './turns.js';

export interface LinkOptions {
  readonly endpoint: Endpoint;
  readonly connectTimeoutMs: number;
  readonly timeoutMs: number;
  readonly minGapMs: number;
  readonly pauseAfterConnectMs: number;
  readonly acceptAnyUnit: boolean;
  readonly localEcho: boolean;
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  /** Between two polls there is no connection, for devices that serve one master at a time. */
  readonly closeAfterPoll: boolean;
  /** The units that are read over this link. */
  readonly units: ReadonlyMap<number, LinkUnit>;
}

export interface LinkUnit {
  /** Something of it that can be read. */
  readonly region: ReadRequest | undefined;
  readonly timeoutMs: number;
  /** Silence between its answer and the next request to it. */
  readonly minGapMs: number;
}

export interface Exchange {
  readonly data: Buffer;
  /** From the sending to the answer, without the wait for the turn. */
  readonly rttMs: number;
}

/**
 * The one connection to an endpoint, shared by all units behind it.
 *
 * - There is never more than one socket: many devices serve a single connection, and a second one locks out the first.
 * - One request is on the line at a time, writes first and reads in the order of asking, with `minGapMs` of silence in
 *   between. Each try is a turn of its own, so a unit that does not answer costs the others one timeout and not all retries.
 * - On RTU, which has no transaction ids, a unit that left a question open is asked for the length of an answer first, see
 *   `Resync`. That outlives the connection: what is late comes out of a converter's queue after a reconnect as well.
 * - A timeout does not end the connection, since it would take the healthy units behind a gateway with it. Only when all
 *   units are silent, several times in a row, is it the connection that is dead, and a new one is made.
 * - With `closeAfterPoll` it rests between two polls, and whoever asks first connects it.
 * - It connects again for ever, with jittered backoff that starts anew only after an answer.
 */
export class Link {
  /** Open while requests can be sent. */
  readonly gate = new Gate();
  readonly cost: LinkCost;

  private readonly options: LinkOptions;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly complaints = new RateLimit();
  private readonly backoff: Backoff;
  private readonly stopping: AbortSignal;
  private readonly ended = new AbortController();
  private state: LinkState = { name: 'closed' };
  private client: ModbusClient | undefined;
  private downReason: HoldfastError | undefined;
  private readonly turns = new Turns();
  private readonly resyncs = new Map<number, Resync>();
  private quietUntilMono = 0;
  private readonly unitQuietUntilMono = new Map<number, number>();
  private connecting: Promise<void> | undefined;
  private timeoutsInARow = 0;
  private readonly silentUnits = new Set<number>();
  private readonly lateAnswers = new Map<number, number>();
  private connects = 0;

  /** From the moment `stopping` aborts, only the request that is on the line still gets its answer. */
  constructor(options: LinkOptions, clock: Clock, log: Log, stopping: AbortSignal) {
    this.options = options;
    this.clock = clock;
    this.log = log;
    this.stopping = stopping;
    this.backoff = new Backoff(options.backoff);
    this.cost = new LinkCost(byteTimeMsOf(options.endpoint));
    if (options.endpoint.framing === 'rtu')
      for (const [unit, { region, timeoutMs }] of options.units) this.resyncs.set(unit, new Resync(region, timeoutMs));
  }

  start(): void {
    this.dispatch({ name: 'start' });
  }

  /** For good. What is asked, or waits for its turn, is rejected with `device.link`. */
  close(): void {
    this.dispatch({ name: 'stop' });
  }

  /** One try. Throws as `ModbusClient.read` does, and `device.link` at once when there is no connection. */
  read(request: ReadRequest): Promise<Exchange> {
    return this.rested(request.unit, () => this.turns.take(() => this.exchange(request)));
  }

  /**
   * One try, before all reads that wait. `start` is called right before it is sent; when it returns false nothing is sent.
   * Throws as `read` does; after the start, only `device.exception` says that nothing was written.
   */
  write(request: WriteRequest, start: () => boolean): Promise<Exchange> {
    return this.rested(request.unit, () => this.turns.take(() => this.exchange(request, start), true));
  }

  /** A poll is over; where it is wanted and nobody else asks, the connection ends until the next one. */
  rest(): void {
    if (this.options.closeAfterPoll && this.turns.isIdle) this.dispatch({ name: 'rest' });
  }

  /** Why nothing can be asked now. */
  noConnection(): HoldfastError {
    return this.downReason ?? new HoldfastError('device.link', 'There is no connection to the device');
  }

  /** Answers of a unit that came after their request had timed out. */
  lateAnswersOf(unit: number): number {
    return this.lateAnswers.get(unit) ?? 0;
  }

  status(): LinkStatus {
    const cause = this.downReason ? { cause: causeOf(this.downReason) } : {};
    return { target: targetOf(this.options.endpoint), state: this.state.name, ...cause, connects: this.connects };
  }

  private async exchange(request: ReadRequest | WriteRequest, start?: () => boolean): Promise<Exchange> {
    const resync = this.resyncs.get(request.unit);
    if (resync?.isNeeded(this.clock.mono())) {
      const probe = resync.probe();
      if (!probe) throw new HoldfastError('device.timeout', 'The unit owes answers; it is left in silence for a while');
      await this.ask(probe, resync);
      resync.settled();
    }
    return this.ask(request, resync, start);
  }

  private async ask(
    request: ReadRequest | WriteRequest,
    resync: Resync | undefined,
    start?: () => boolean,
  ): Promise<Exchange> {
    if (!this.stopping.aborted) this.dispatch({ name: 'wake' });
    await this.connecting;
    await this.silence(request.unit);
    const { client } = this;
    if (!client || this.stopping.aborted || start?.() === false) throw this.noConnection();
    const sentMono = this.clock.mono();
    const unit = this.options.units.get(request.unit);
    const timeoutMs = (unit?.timeoutMs ?? this.options.timeoutMs) + this.cost.onTheWireMs(request);
    try {
      const data = await ('quantity' in request ? client.read(request, timeoutMs) : client.write(request, timeoutMs));
      const rttMs = this.clock.mono() - sentMono;
      this.answered();
      if ('quantity' in request) this.cost.add(dataBytesOf(request), rttMs);
      return { data, rttMs };
    } catch (error) {
      const code = error instanceof HoldfastError ? error.code : undefined;
      const refused = exceptionCodeOf(error) !== undefined;
      if (refused) this.answered();
      if (code === 'device.timeout') this.timedOut(request.unit);
      // An exception may be that of an older question, and then the answer to this one is still to come.
      if (!refused || resync?.isNeeded(sentMono)) resync?.unansweredBy(request, this.clock.mono());
      throw error;
    } finally {
      const nowMono = this.clock.mono();
      this.quietUntilMono = nowMono + Math.max(this.options.minGapMs, frameGapMsOf(this.options.endpoint));
      if (unit && unit.minGapMs > 0) this.unitQuietUntilMono.set(request.unit, nowMono + unit.minGapMs);
    }
  }

  /** Timers fire a little early at times; a device that needs its rest needs all of it. */
  private async silence(unit: number): Promise<void> {
    await this.until(Math.max(this.quietUntilMono, this.unitQuietUntilMono.get(unit) ?? 0));
  }

  /** The rest of one unit is waited for without a turn, so that the others go on meanwhile. */
  private rested<T>(unit: number, work: () => Promise<T>): Promise<T> {
    const untilMono = this.unitQuietUntilMono.get(unit);
    return untilMono === undefined ? work() : this.until(untilMono).then(work);
  }

  private async until(untilMono: number): Promise<void> {
    const leftMs = () => untilMono - this.clock.mono();
    for (let left = leftMs(); left > 0 && !this.stopping.aborted; left = leftMs())
      await sleep(Math.ceil(left), this.stopping);
  }

  private answered(): void {
    this.backoff.reset();
    this.timeoutsInARow = 0;
    this.silentUnits.clear();
  }

  private timedOut(unit: number): void {
    this.timeoutsInARow++;
    this.silentUnits.add(unit);
    const all = [...this.options.units.keys()].every((each) => this.silentUnits.has(each));
    if (all && this.timeoutsInARow >= TIMEOUTS_UNTIL_RECONNECT)
      this.client?.close(new HoldfastError('device.timeout', `No answer to ${this.timeoutsInARow} requests in a row`));
  }

  /** The only place that changes the state. */
  private dispatch(event: LinkEvent): void {
    const next = nextLinkState(this.state, event);
    if (next === this.state) return;
    this.state = next;
    switch (next.name) {
      case 'connecting':
        this.connecting = this.connect().finally(() => {
          this.connecting = undefined;
        });
        return;
      case 'open':
        this.connects++;
        this.downReason = undefined;
        this.timeoutsInARow = 0;
        this.silentUnits.clear();
        this.log[this.options.closeAfterPoll ? 'debug' : 'info'](this.status(), 'Connected to the device');
        this.gate.open();
        return;
      case 'resting':
        // The gate stays open: whoever asks next wakes the link.
        this.client?.close(new HoldfastError('device.link', 'The connection rests until the next poll'));
        return;
      case 'backoff':
        this.gate.shut();
        this.downReason = next.reason;
        this.complain(next.reason);
        void sleep(this.backoff.next(), this.ended.signal).then(() => this.dispatch({ name: 'retry' }));
        return;
      case 'closed':
        this.gate.shut();
        this.ended.abort();
        this.client?.close();
        return;
      default:
        assertNever(next, 'link state');
    }
  }

  private async connect(): Promise<void> {
    try {
      const client = await ModbusClient.connect(
        { ...this.options, signal: this.ended.signal },
        {
          onDown: (reason) => {
            this.client = undefined;
            this.dispatch({ name: 'lost', reason });
          },
          onLate: (unit) => this.lateAnswers.set(unit, this.lateAnswersOf(unit) + 1),
        },
      );
      await sleep(this.options.pauseAfterConnectMs, this.ended.signal);
      if (this.ended.signal.aborted) {
        client.close();
        return;
      }
      this.client = client;
      this.dispatch({ name: 'connected' });
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      this.dispatch({ name: 'lost', reason: error });
    }
  }

  private complain(reason: HoldfastError): void {
    const held = this.complaints.pass(causeOf(reason));
    if (held !== undefined)
      this.log.warn({ ...this.status(), detail: messageOf(reason), held }, 'The connection to the device is down');
  }
}

/**
 * One dead answer is a busy device; four without any in between, from every unit, is a peer that vanished without a word:
 * a cable pulled beyond the switch, a firewall that forgot the connection.
 */
const TIMEOUTS_UNTIL_RECONNECT = 4;
