/** Whether a socket is read. Several reasons may speak against it at once; it is read when none is left. */
import type { Duplex } from 'node:stream';

/**
 * `answer`: a packet is with Aedes or waits for its commit, and nothing may overtake it. `backlog`: too much of this
 * client waits to be committed. `clogged`: it sends but does not take our answers. `rate`: it sends more than it may.
 * `stopped`: the broker is closing.
 */
export type ShutReason = 'answer' | 'backlog' | 'clogged' | 'rate' | 'stopped';

export class ReadGate {
  private readonly socket: Duplex;
  private readonly reasons = new Set<ShutReason>();

  constructor(socket: Duplex) {
    this.socket = socket;
  }

  shut(reason: ShutReason): void {
    this.reasons.add(reason);
    this.socket.pause();
  }

  open(reason: ShutReason): void {
    if (this.reasons.delete(reason) && this.reasons.size === 0) this.socket.resume();
  }

  isShut(...reasons: readonly ShutReason[]): boolean {
    return reasons.some((reason) => this.reasons.has(reason));
  }
}
