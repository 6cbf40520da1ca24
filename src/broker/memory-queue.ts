/** What waits in memory for one connection: retained messages of new subscriptions first, then a bounded queue. */
import type { BrokerLimits } from './limits.js';
import type { Manner, Outgoing } from './outbox.js';
import { owned } from './owned.js';

export interface Waiting {
  readonly message: Outgoing;
  readonly manner: Manner;
  /** Packet id if it has one already, or 0. */
  readonly id: number;
}

/** Used places at the front are given back in steps of this many: shifting an array one by one is quadratic. */
const COMPACT_ITEMS = 4_096;

export class MemoryQueue {
  private readonly limits: BrokerLimits;
  private feeds: { items: readonly { message: Outgoing; manner: Manner }[]; at: number }[] = [];
  private items: (Waiting | undefined)[] = [];
  private head = 0;
  private bytes = 0;

  constructor(limits: BrokerLimits) {
    this.limits = limits;
  }

  get isEmpty(): boolean {
    return this.head === this.items.length && this.feeds.length === 0;
  }

  hasRoomFor({ payload }: Outgoing): boolean {
    const waiting = this.items.length - this.head;
    return waiting < this.limits.cleanQueueMessagesMax && this.bytes + payload.length <= this.limits.cleanQueueBytesMax;
  }

  feed(items: readonly { message: Outgoing; manner: Manner }[]): void {
    this.feeds.push({ items, at: 0 });
  }

  push(item: Waiting): void {
    const { message } = item;
    this.bytes += message.payload.length;
    this.items.push({ ...item, message: { ...message, payload: owned(message.payload), props: owned(message.props) } });
  }

  peek(): Waiting {
    const feed = this.feeds[0];
    if (feed) return { ...(feed.items[feed.at] as Waiting), id: 0 };
    return this.items[this.head] as Waiting;
  }

  shift(): void {
    const feed = this.feeds[0];
    if (feed) {
      if (++feed.at === feed.items.length) this.feeds.shift();
      return;
    }
    this.bytes -= (this.items[this.head] as Waiting).message.payload.length;
    this.items[this.head++] = undefined;
    if (this.head === this.items.length) this.items = [];
    else if (this.head >= COMPACT_ITEMS) this.items = this.items.slice(this.head);
    else return;
    this.head = 0;
  }

  clear(): void {
    this.feeds = [];
    this.items = [];
    this.head = 0;
    this.bytes = 0;
  }
}
