/** Below this many dead slots compacting costs more than it frees. */
const COMPACT_MIN = 1024;

/** A queue with constant-time `shift`; Array.shift moves every element of a long backlog. */
export class Fifo<T> {
  private items: (T | undefined)[] = [];
  private head = 0;

  get length(): number {
    return this.items.length - this.head;
  }

  push(item: T): void {
    this.items.push(item);
  }

  peek(): T | undefined {
    return this.items[this.head];
  }

  shift(): T | undefined {
    const item = this.items[this.head];
    if (this.length === 0) return undefined;
    this.items[this.head++] = undefined;
    if (this.head >= COMPACT_MIN && this.head * 2 >= this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return item;
  }

  clear(): void {
    this.items = [];
    this.head = 0;
  }
}
