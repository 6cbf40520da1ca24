import type { Clock } from '../../lib/clock.js';
import type { Table } from '../../model/modbus.js';
import type { Extent } from './plan.js';

/**
 * What a device has taught us about ranges that it refuses: tags that it does not have, and places that no read may cross
 * although both sides can be read. After a while it is forgotten, and the device is tried with its best plan again: a hole
 * may have been closed by a new program in the PLC.
 */
export class Holes {
  private readonly retestMs: number;
  private readonly clock: Clock;
  private readonly fences = new Map<Table, Set<number>>();
  private readonly isolated = new Set<Extent>();
  private learntMono = 0;
  private changes = 0;

  constructor(retestMs: number, clock: Clock) {
    this.retestMs = retestMs;
    this.clock = clock;
  }

  /** Changes whenever plans have to be made anew. Forgets what is too old. */
  version(): number {
    if (!this.isEmpty && this.clock.mono() - this.learntMono >= this.retestMs) this.clear();
    return this.changes;
  }

  /** The device refuses this by itself: it is asked for alone, and nothing is read across it. */
  isolate(extent: Extent): void {
    if (this.isolated.has(extent)) return;
    this.learn();
    this.isolated.add(extent);
    this.fence(extent.table, extent.address);
    this.fence(extent.table, extent.address + extent.quantity);
  }

  /** No read goes from before this place into it. */
  split({ table, address }: Extent): void {
    this.learn();
    this.fence(table, address);
  }

  clear(): void {
    if (this.isEmpty) return;
    this.fences.clear();
    this.isolated.clear();
    this.changes++;
  }

  isIsolated(extent: Extent): boolean {
    return this.isolated.has(extent);
  }

  /** Whether a read of these addresses crosses a place that it must not. */
  cross(table: Table, address: number, quantity: number): boolean {
    for (const fence of this.fences.get(table) ?? []) if (address < fence && fence < address + quantity) return true;
    return false;
  }

  private get isEmpty(): boolean {
    return this.fences.size === 0;
  }

  private learn(): void {
    // Counts from the first one, or a device with an ever new hole would never be tried again as a whole.
    if (this.isEmpty) this.learntMono = this.clock.mono();
    this.changes++;
  }

  private fence(table: Table, address: number): void {
    const fences = this.fences.get(table) ?? new Set();
    fences.add(address);
    this.fences.set(table, fences);
  }
}
