/**
 * What one network address may take of the broker: so many connections at a time, and so many new ones in a second. A
 * device that reconnects in a loop, or a scan, then costs one look-up per attempt and nobody else's place.
 */
import type { BrokerLimits } from './limits.js';
import { TokenBucket } from './token-bucket.js';

/** A plant's clients all come back at once after a restart: an address that was quiet may connect this many seconds' worth. */
const BURST_S = 10;

interface Visitor {
  connections: number;
  readonly connects: TokenBucket;
}

export class AddressGuard {
  private readonly limits: BrokerLimits;
  private readonly visitors = new Map<string, Visitor>();

  constructor(limits: BrokerLimits) {
    this.limits = limits;
  }

  /** Takes a place; false when the address has none left. */
  enter(address: string, now: number): boolean {
    const { connectRateMax, clientsPerAddressMax } = this.limits;
    let visitor = this.visitors.get(address);
    if (!visitor) {
      visitor = { connections: 0, connects: new TokenBucket(connectRateMax, BURST_S) };
      this.visitors.set(address, visitor);
    }
    if (visitor.connections >= clientsPerAddressMax || !visitor.connects.take(1, now)) return false;
    visitor.connections++;
    return true;
  }

  leave(address: string): void {
    const visitor = this.visitors.get(address);
    if (visitor) visitor.connections--;
  }

  /** Forgets addresses about which there is nothing to know. */
  sweep(now: number): void {
    for (const [address, { connections, connects }] of this.visitors)
      if (connections === 0 && connects.isFull(now)) this.visitors.delete(address);
  }
}
