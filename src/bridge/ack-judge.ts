import type { Source } from '../model/row.js';
import { type Ack, parseAck } from '../wire/ack.js';

/** Why a statement was not believed. `older` happens by itself, when two of them overtake each other. */
export type Disbelief = 'malformed' | 'foreign' | 'beyond' | 'older' | 'retained';

export type AckCounts = Readonly<Record<Disbelief | 'believed', number>>;

/**
 * Decides which acknowledgements are believed: what they say makes rows be deleted, and anybody who may write to the topic
 * can say it. A statement is about this gateway and this life of its spool, and about seqs that can have been sent.
 */
export class AckJudge {
  private readonly source: Source;
  /** What earlier processes can have sent of this spool, and this one has. */
  private sentUpTo: number;
  private readonly counts = { believed: 0, malformed: 0, foreign: 0, beyond: 0, older: 0, retained: 0 };

  /** `tail` is the highest seq of the spool when the process began. */
  constructor(source: Source, tail: number) {
    this.source = source;
    this.sentUpTo = tail;
  }

  get totals(): AckCounts {
    return { ...this.counts };
  }

  sent(last: number): void {
    this.sentUpTo = Math.max(this.sentUpTo, last);
  }

  /** `released`: the consumer had confirmed everything up to there when this one arrived. */
  judge(bytes: Uint8Array, retained: boolean, released: number): Ack | Disbelief {
    const verdict = this.verdict(bytes, retained, released);
    this.counts[typeof verdict === 'string' ? verdict : 'believed']++;
    return verdict;
  }

  private verdict(bytes: Uint8Array, retained: boolean, released: number): Ack | Disbelief {
    // The broker has kept it, and nobody knows since when and from which consumer.
    if (retained) return 'retained';
    const ack = parseAck(bytes);
    if (!ack) return 'malformed';
    const { gateway, epoch } = ack.source;
    if (gateway !== this.source.gateway || epoch !== this.source.epoch) return 'foreign';
    const furthest = Math.max(ack.through, ack.refused?.to ?? 0);
    if (furthest > this.sentUpTo) return 'beyond';
    if (ack.through < released && !ack.refused && !ack.ask) return 'older';
    return ack;
  }
}
