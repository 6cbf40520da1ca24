/**
 * The newest retained message of every topic, in memory and in the table. The memory shows what is committed, in the order
 * of the commits; both are bounded. Topics form a tree, so that a filter visits only the branches it can match.
 */
import type { Qos } from '../model/message.js';
import type { BrokerLimits } from './limits.js';

/** Never changed once stored: a snapshot may still refer to it. */
export interface Retained {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly props: Uint8Array | null;
  readonly qos: Qos;
  /** Wall time in ms after which it is no longer sent; 0: never. */
  readonly deadline: number;
  /** Who published it: client id, null for this process or when it is not known; user, null for an anonymous client. */
  readonly sender: string | null;
  readonly user: string | null;
  /** Wall time in ms at which the broker took it; 0: not known. */
  readonly storedAt: number;
  /** What the broker says of itself is not counted against the limits. */
  readonly isOwn?: boolean;
}

interface Node {
  readonly children: Map<string, Node>;
  message: Retained | null;
}

export class RetainedStore {
  private readonly limits: BrokerLimits;
  private readonly root: Node = { children: new Map(), message: null };
  private readonly byTopic = new Map<string, Node>();
  count = 0;
  bytes = 0;
  /** Messages on their way to the commit, by topic: without them a burst would overrun the limits. */
  private readonly held = new Map<string, { times: number; readonly isNew: boolean }>();
  private heldNew = 0;
  private heldBytes = 0;

  constructor(limits: BrokerLimits) {
    this.limits = limits;
  }

  /**
   * Keeps room for a message that is on its way to the commit; false when the store is full for it. A topic that has a value
   * may change it up to the limit of bytes. Every `hold` that was granted is followed by one `release`.
   */
  hold(topic: string, bytes: number): boolean {
    const old = this.byTopic.get(topic)?.message;
    const held = this.held.get(topic);
    const isNew = !held && (!old || old.isOwn === true);
    if (isNew && this.count + this.heldNew >= this.limits.retainedMax) return false;
    if (this.bytes + this.heldBytes + bytes - (old ? weightOf(old) : 0) > this.limits.retainedBytesMax) return false;
    if (held) held.times++;
    else this.held.set(topic, { times: 1, isNew });
    if (isNew) this.heldNew++;
    this.heldBytes += bytes;
    return true;
  }

  release(topic: string, bytes: number): void {
    const held = this.held.get(topic);
    if (!held) return;
    this.heldBytes -= bytes;
    if (--held.times > 0) return;
    this.held.delete(topic);
    if (held.isNew) this.heldNew--;
  }

  /** An empty payload removes the topic's message [MQTT-3.3.1-6]. */
  set(message: Retained): void {
    if (message.payload.length === 0) {
      this.remove(message.topic);
      return;
    }
    const known = this.byTopic.get(message.topic);
    let node = known ?? this.root;
    if (!known) {
      for (const level of message.topic.split('/')) {
        let child: Node | undefined = node.children.get(level);
        if (!child) {
          child = { children: new Map(), message: null };
          node.children.set(level, child);
        }
        node = child;
      }
      this.byTopic.set(message.topic, node);
    } else if (node.message) this.uncount(node.message);
    node.message = message;
    if (!message.isOwn) this.count++;
    this.bytes += weightOf(message);
  }

  /** Messages whose topic matches `filter` and that have not expired at `now`. */
  match(filter: string, now: number): Retained[] {
    const found: Retained[] = [];
    const levels = filter.split('/');
    const add = ({ message }: Node): void => {
      if (message && (message.deadline === 0 || message.deadline > now)) found.push(message);
    };
    const all = (node: Node): void => {
      add(node);
      for (const child of node.children.values()) all(child);
    };
    const walk = (node: Node, depth: number): void => {
      const level = levels[depth];
      if (level === undefined) add(node);
      else if (level === '#') {
        if (depth > 0) add(node);
        for (const [name, child] of node.children) if (depth > 0 || name.charCodeAt(0) !== 36) all(child);
      } else if (level === '+') {
        for (const [name, child] of node.children) if (depth > 0 || name.charCodeAt(0) !== 36) walk(child, depth + 1);
      } else {
        const child = node.children.get(level);
        if (child) walk(child, depth + 1);
      }
    };
    walk(this.root, 0);
    return found;
  }

  /** Topics whose message has expired at `now`; they are removed here. */
  expire(now: number): string[] {
    const gone: string[] = [];
    for (const [topic, { message }] of this.byTopic)
      if (message && message.deadline > 0 && message.deadline <= now) gone.push(topic);
    for (const topic of gone) this.remove(topic);
    return gone;
  }

  private uncount(message: Retained): void {
    if (!message.isOwn) this.count--;
    this.bytes -= weightOf(message);
  }

  private remove(topic: string): void {
    const node = this.byTopic.get(topic);
    if (!node?.message) return;
    this.uncount(node.message);
    node.message = null;
    this.byTopic.delete(topic);
    const levels = topic.split('/');
    const path: Node[] = [this.root];
    for (const level of levels) path.push((path.at(-1) as Node).children.get(level) as Node);
    for (let depth = levels.length; depth > 0; depth--) {
      const { children, message } = path[depth] as Node;
      if (children.size > 0 || message) break;
      (path[depth - 1] as Node).children.delete(levels[depth - 1] as string);
    }
  }
}

function weightOf(message: Retained): number {
  return message.isOwn ? 0 : sizeOf(message);
}

/** What a message weighs against the limit: its parts and about what the tree costs for it. */
export function sizeOf({ topic, payload, props }: Pick<Retained, 'topic' | 'payload' | 'props'>): number {
  return 128 + topic.length + payload.length + (props?.length ?? 0);
}
