/** Batches as a gateway sends them, written from their description and not with the gateway's own code. */
import { gzipSync } from 'node:zlib';
import { Packr } from 'msgpackr';
import { TALLY_TOPIC } from '../../model/tally.js';

export interface FleetRow {
  readonly seq: number;
  readonly ts: number;
  /** Number of the metric, or the payload of a message with tallies. */
  readonly metric: number | Buffer;
  readonly value: number;
}

const packr = new Packr({ useRecords: false, variableMapSize: true, encodeUndefinedAsNil: true });
/** Speed matters more than size on a machine that plays a thousand gateways. */
const GZIP_LEVEL = 1;

/** Rows with consecutive seqs as one batch in columns. */
export function encodeBatch(gateway: string, epoch: string, asset: string, rows: readonly FleetRow[]): Buffer {
  const keys: string[][] = [];
  const known = new Map<number, number>();
  const indexOf = (metric: number): number => {
    let index = known.get(metric);
    if (index === undefined) {
      index = keys.push([`plant/${asset}/m${metric}`, 'f', asset, `m${metric}`]) - 1;
      known.set(metric, index);
    }
    return index;
  };
  let tallies = -1;
  const first = rows[0]!;
  const batch = {
    v: 1,
    gw: gateway,
    ep: epoch,
    f: first.seq,
    l: rows.at(-1)!.seq,
    n: rows.length,
    t0: BigInt(first.ts),
    k: keys,
    i: rows.map(({ metric }) => {
      if (typeof metric === 'number') return indexOf(metric);
      if (tallies < 0) tallies = keys.push([TALLY_TOPIC, 'p']) - 1;
      return tallies;
    }),
    t: rows.map(({ ts }, n) => (n === 0 ? 0 : ts - rows[n - 1]!.ts)),
    x: rows.map(({ metric, value }) => (typeof metric === 'number' ? value : metric)),
  };
  return gzipSync(packr.pack(batch), { level: GZIP_LEVEL });
}
