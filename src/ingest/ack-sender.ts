import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Source } from '../model/row.js';
import { type Ack, type AckRange, encodeAck } from '../wire/ack.js';
import type { TopicTemplate } from '../wire/topic-template.js';
import { ackOf } from './ack-of.js';
import type { Historian } from './historian.js';

/** Which gateways get an acknowledgement: those whose batches ask for it, all of them, or none. */
export type AckPolicy = 'asked' | 'always' | 'never';

export interface AckSenderOptions {
  readonly policy: AckPolicy;
  /** With the field `gateway`. */
  readonly topic: TopicTemplate;
  readonly historian: Pick<Historian, 'entry'>;
  /** Rejects when it cannot be sent. */
  readonly publish: (topic: string, payload: Buffer) => Promise<void>;
  readonly log: Log;
}

/** Publishes that no broker has acknowledged; brokers grant at least so many. */
const IN_FLIGHT_MAX = 16;
/** Words about batches that cannot be taken, waiting to be sent; a gateway that misses one sends its batch again. */
const REFUSALS_MAX = 1_000;

/**
 * Tells gateways what is stored here, after the commit. A statement is about everything that has come from a gateway, so of
 * those that wait only the newest is sent, and one that gets lost is made good by the next.
 */
export class AckSender {
  private readonly options: AckSenderOptions;
  private readonly complaints = new RateLimit();
  private readonly waiting = new Map<string, { readonly source: Source; readonly around: AckRange }>();
  private refusals: { readonly source: Source; readonly refused: NonNullable<Ack['refused']> }[] = [];
  private readonly busy = new Set<string>();
  /** Statements that have been sent. */
  sent = 0;

  constructor(options: AckSenderOptions) {
    this.options = options;
  }

  /** To be called once a batch is stored. */
  stored(source: Source, around: AckRange, asked: boolean): void {
    if (!this.wanted(asked)) return;
    this.waiting.set(keyOf(source), { source, around });
    this.pump();
  }

  /** To be called once a batch that cannot be taken is kept aside. */
  refused(source: Source, range: AckRange, reason: string, asked: boolean): void {
    if (!this.wanted(asked)) return;
    if (this.refusals.length < REFUSALS_MAX) this.refusals.push({ source, refused: { ...range, reason } });
    this.pump();
  }

  private wanted(asked: boolean): boolean {
    return this.options.policy === 'always' || (this.options.policy === 'asked' && asked);
  }

  private pump(): void {
    for (const refusal of this.refusals.filter(({ source }) => this.isFree(source))) {
      if (!this.isFree(refusal.source)) continue;
      this.refusals = this.refusals.filter((other) => other !== refusal);
      this.send(refusal.source, refusal.refused, refusal.refused);
    }
    for (const [key, { source, around }] of this.waiting) {
      if (!this.isFree(source)) continue;
      this.waiting.delete(key);
      this.send(source, around);
    }
  }

  /** One at a time for each gateway, so that they arrive in order. */
  private isFree(source: Source): boolean {
    return this.busy.size < IN_FLIGHT_MAX && !this.busy.has(keyOf(source));
  }

  private send(source: Source, around: AckRange, refused?: Ack['refused']): void {
    const key = keyOf(source);
    this.busy.add(key);
    void this.publish(source, around, refused)
      .then(
        () => {
          this.sent++;
        },
        (error) => {
          const reason = messageOf(error);
          const held = this.complaints.pass(reason);
          if (held !== undefined) this.options.log.warn({ ...source, reason, held }, 'Cannot send an acknowledgement');
        },
      )
      .finally(() => {
        this.busy.delete(key);
        this.pump();
      });
  }

  private async publish(source: Source, around: AckRange, refused: Ack['refused']): Promise<void> {
    const { topic, historian, publish } = this.options;
    const ack = ackOf(source, historian.entry(source), around);
    await publish(topic.format({ gateway: source.gateway }), encodeAck(refused ? { ...ack, refused } : ack));
  }
}

function keyOf({ gateway, epoch }: Source): string {
  return `${gateway}\0${epoch}`;
}
