/** What a spool must hold, in the simplest words there are: a list of rows, and five counts. */
import assert from 'node:assert/strict';
import type { Seq } from '../../src/model/ids.js';
import type { Spool } from '../../src/spool/spool.js';

export interface ModelRow {
  readonly seq: number;
  readonly payload: string;
  readonly droppable: boolean;
}

const EVERYTHING = 1_000_000;

export class SpoolModel {
  rows: ModelRow[] = [];
  dead: ModelRow[] = [];
  /** Seqs that will never come as rows. */
  private readonly lost = new Set<number>();
  /** What was lost up to here the cloud has been told; a range that goes further may be told again as a whole. */
  private toldUpTo = 0;
  tail = 0;
  received = 0;
  acknowledged = 0;
  dropped = 0;

  enqueue(payload: string, droppable: boolean): void {
    this.rows.push({ seq: ++this.tail, payload, droppable });
    this.received++;
  }

  acknowledge(upTo: number): void {
    this.acknowledged += this.rows.filter(({ seq }) => seq <= upTo).length;
    this.rows = this.rows.filter(({ seq }) => seq > upTo);
    this.toldUpTo = Math.max(this.toldUpTo, upTo);
  }

  bury(seq: number): boolean {
    const row = this.rows.find((it) => it.seq === seq);
    if (!row) return false;
    this.rows = this.rows.filter((it) => it !== row);
    this.dead.push(row);
    this.lost.add(seq);
    return true;
  }

  requeue(seq: number): number | null {
    const letter = this.dead.find((it) => it.seq === seq);
    if (!letter) return null;
    this.dead = this.dead.filter((it) => it !== letter);
    this.rows.push({ ...letter, seq: ++this.tail });
    return this.tail;
  }

  /** The oldest droppable rows after `after` until they make up `bytes`. */
  drop(after: number, bytes: number): number {
    let size = 0;
    const gone = this.rows.filter((row) => {
      if (row.seq <= after || !row.droppable || size >= bytes) return false;
      size += row.payload.length;
      return true;
    });
    this.rows = this.rows.filter((row) => !gone.includes(row));
    for (const { seq } of gone) this.lost.add(seq);
    this.dropped += gone.length;
    return gone.length;
  }

  /** The spool holds exactly this: every row in order, every count, and every seq that is not there is known as lost. */
  async assertSame(spool: Spool, after = 0): Promise<void> {
    const stats = await spool.stats();
    assert.ok(stats.balanced, 'the accounts are right');
    const { received, acknowledged, dropped, tail } = this;
    assert.deepEqual(
      [stats.rows, stats.received, stats.acknowledged, stats.dropped, stats.dead, stats.tail, stats.head],
      [this.rows.length, received, acknowledged, dropped, this.dead.length, tail, this.rows[0]?.seq ?? tail + 1],
    );
    assert.equal(
      stats.bytes,
      this.rows.reduce((sum, { payload }) => sum + payload.length, 0),
    );
    const { rows, lost, unsound } = await spool.read(after as Seq, EVERYTHING, Number.MAX_SAFE_INTEGER);
    const expected = this.rows.filter(({ seq }) => seq > after);
    assert.deepEqual(
      rows.map(({ seq, payload }) => [seq, Buffer.from(payload).toString()]),
      expected.map(({ seq, payload }) => [seq, payload]),
    );
    assert.deepEqual(unsound, []);
    const last = expected.at(-1)?.seq ?? Number.POSITIVE_INFINITY;
    const told = lost.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
    const since = Math.max(after, this.toldUpTo);
    assert.deepEqual(
      told.filter((seq) => seq > since),
      [...this.lost].filter((seq) => seq > since && seq < last).sort((a, b) => a - b),
    );
    const letters = await spool.dead(EVERYTHING);
    assert.deepEqual(
      letters.map(({ seq }) => seq),
      this.dead.map(({ seq }) => seq).sort((a, b) => a - b),
    );
  }
}
