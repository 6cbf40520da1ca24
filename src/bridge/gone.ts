import type { Seq } from '../model/ids.js';
import type { Spool } from '../spool/spool.js';
import type { AckRange } from '../wire/ack.js';
import type { Batcher } from './batcher.js';

/** Acknowledged once, and therefore deleted here. */
const RELEASED = 'released';

/**
 * The gateway's answer to a consumer that misses seqs which have left the spool long ago: they will not come again. What is
 * in the spool needs no answer, because it is sent in any case.
 */
export async function goneFrom(
  spool: Pick<Spool, 'stats'>,
  batcher: Batcher,
  ranges: readonly AckRange[],
): Promise<Uint8Array | undefined> {
  const { head } = await spool.stats();
  const lost = ranges
    .filter(({ from }) => from < head)
    .map(({ from, to }) => ({ from: from as Seq, to: Math.min(to, head - 1) as Seq, reason: RELEASED }));
  return lost.length > 0 ? batcher.encodeLost(lost) : undefined;
}
