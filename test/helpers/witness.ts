import type { AcceptedPublish } from '../../src/sim/cloud/fault-broker.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { ask } from './historian.js';

/** What a run left behind, by seq: in the spool file, at the cloud, or both. Opaque messages only. */
export class Witness {
  /** Payload by `epoch/seq`. */
  readonly contents = new Map<string, string>();
  /** Seqs that were seen with two contents. */
  readonly reused: string[] = [];
  readonly atCloud = new Set<number>();
  readonly inSpool = new Set<number>();
  /** Seqs in the order of their first arrival at the cloud. */
  readonly arrivals: number[] = [];

  readonly take = ({ payload }: Pick<AcceptedPublish, 'payload'>): void => {
    const batch = decodeBatch(payload);
    for (const row of batch.rows) {
      if (row.type !== 'p') throw new Error(`seq ${row.seq} is no opaque message`);
      this.note(batch.source.epoch, row.seq, Buffer.from(row.payload).toString());
      if (!this.atCloud.has(row.seq)) this.arrivals.push(row.seq);
      this.atCloud.add(row.seq);
    }
  };

  /** Looks into the file of a gateway that has ended, and checks that its totals are those of its rows. */
  readSpool(path: string): { rows: number; received: number; acknowledged: number; dead: number; counted: number } {
    const [state] = ask<{ epoch: string; rows: number; received: number; acknowledged: number; dead: number }>(
      path,
      'SELECT epoch, rows, received, acknowledged, dead FROM spool_state',
    );
    const rows = ask<{ seq: number; payload: Buffer }>(path, 'SELECT seq, payload FROM spool ORDER BY seq');
    for (const { seq, payload } of rows) {
      this.note(state!.epoch, seq, payload.toString());
      this.inSpool.add(seq);
    }
    const { received, acknowledged, dead } = state!;
    return { rows: state!.rows, received, acknowledged, dead, counted: rows.length };
  }

  /** How many seqs hold each payload. */
  copies(): Map<string, number> {
    const copies = new Map<string, number>();
    for (const payload of this.contents.values()) copies.set(payload, (copies.get(payload) ?? 0) + 1);
    return copies;
  }

  private note(epoch: string, seq: number, payload: string): void {
    const key = `${epoch}/${seq}`;
    const before = this.contents.get(key);
    if (before !== undefined && before !== payload) this.reused.push(`${key}: ${before}, then ${payload}`);
    this.contents.set(key, payload);
  }
}
