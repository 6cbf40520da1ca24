/**
 * Two devices with the same client id throw each other out, reconnect, and so on for ever: the commonest fault of a cloned
 * device. The broker cannot know which is the right one, but it can make them wait, and say which id it is.
 */
import { sleep } from '../lib/clock.js';
import type { Shared } from './shared.js';
import { TokenBucket } from './token-bucket.js';

/** A client on a bad link takes its own session over now and then: one in this time, and some more in a row, is no storm. */
const TAKEOVERS_PER_S = 0.5;
const BURST_S = 20;
/** What each further takeover waits; those that queue behind it run into the time limit of CONNECT. */
const WAIT_MS = 1_000;

export class TakeoverStorms {
  private readonly shared: Shared;
  private readonly byId = new Map<string, TokenBucket>();

  constructor(shared: Shared) {
    this.shared = shared;
  }

  /** Resolves when the connection may take over; by then it may have gone. */
  async wait(clientId: string): Promise<void> {
    const { clock, counters, complaints, log } = this.shared;
    counters.takeovers++;
    let bucket = this.byId.get(clientId);
    if (!bucket) {
      bucket = new TokenBucket(TAKEOVERS_PER_S, BURST_S);
      this.byId.set(clientId, bucket);
    }
    if (bucket.take(1, clock.mono())) return;
    const heldBack = complaints.pass(`takeovers ${clientId}`);
    if (heldBack !== undefined)
      log.warn({ client: clientId, heldBack }, 'Two clients throw each other out: they have the same client id');
    await sleep(WAIT_MS);
  }

  /** Forgets ids that are quiet. */
  sweep(now: number): void {
    for (const [id, bucket] of this.byId) if (bucket.isFull(now)) this.byId.delete(id);
  }
}
