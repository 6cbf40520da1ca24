/** What waits in memory for one connection: retained messages of new subscriptions first, then a bounded queue. */
import type { Manner, Outgoing } from './outbox.js';
import { owned } from './owned.js';
import type { Shared } from './shared.js';

export interface Waiting {
  readonly message: Outgoing;
  readonly manner: Manner;
  /** Packet id if it has one already, or 0. */
  readonly id: number;
}

/** Used places at the front are given back in steps of this many: shifting an array one by one is quadratic. */
const COMPACT_ITEMS = 4_096;

export class MemoryQueue {
  private readonly shared: Shared;
  private feeds: { items: readonly { message: Outgoing; manner: Manner }[]; at: number }[] = [];
  private items: (Waiting | undefined)[] = [];
  private head = 0;
  private bytes = 0;

  constructor(shared: Shared) {
    this.shared = shared;
  }

  get isEmpty(): boolean {
    return this.head === this.items.length && this.feeds.length === 0;
  }

  /** Takes the message, or counts it as dropped, or those that it drives out by `sessionQueuePolicy`. */
  offer(message: Outgoing, manner: Manner): void {
    if (this.hasRoomFor(message) || this.makesRoomFor(message, manner)) this.push({ message, manner, id: 0 });
    else this.countDropped(manner);
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
    this.remove();
  }

  private hasRoomFor({ payload }: Outgoing): boolean {
    const { cleanQueueMessagesMax, cleanQueueBytesMax } = this.shared.limits;
    const waiting = this.items.length - this.head;
    return waiting < cleanQueueMessagesMax && this.bytes + payload.length <= cleanQueueBytesMax;
  }

  private makesRoomFor(message: Outgoing, { qos }: Manner): boolean {
    const { sessionQueuePolicy, cleanQueueBytesMax } = this.shared.limits;
    // QoS 0 drives nobody out, and a message larger than the queue would only empty it.
    if (sessionQueuePolicy !== 'drop-oldest' || qos === 0 || message.payload.length > cleanQueueBytesMax) return false;
    while (!this.hasRoomFor(message)) {
      const oldest = this.items[this.head];
      // One with a packet id is a row of a session, and has its place.
      if (!oldest || oldest.id > 0) return false;
      this.remove();
      this.countDropped(oldest.manner);
    }
    return true;
  }

  private countDropped({ qos }: Manner): void {
    this.shared.counters.dropped[qos === 0 ? 'slow-subscriber' : 'clean-queue-full']++;
  }

  private remove(): void {
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
