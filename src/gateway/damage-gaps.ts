/** What damage to the spool file took, as gap records: for the gateway as a whole, and for every asset that is known. */
import type { ReaderConfig } from '../config/reader-schema.js';
import type { Gap } from '../model/gap.js';
import type { Millis } from '../model/ids.js';
import type { SpoolInput } from '../model/row.js';
import type { DamageReport } from '../spool/spool.js';
import { encodeGapPayload } from '../wire/gap.js';

/** Publishers that nobody has heard of since lose their readings without a name; the record of the gateway covers them. */
export function damageGaps(report: DamageReport, gateway: string, readers: readonly ReaderConfig[]): SpoolInput[] {
  const { problem, epoch, salvaged, missing } = report;
  const from = Math.min(report.from, report.to) as Millis;
  const to = report.to as Millis;
  const detail = `${problem}; epoch ${epoch ?? 'unknown'}, ${salvaged} rows saved, ${missing ?? 'unknown'} missing`;
  if (missing === 0) return [];
  const assets = new Set([...report.assets, ...readers.flatMap(({ devices }) => devices.map(({ asset }) => asset))]);
  const of = (asset: string, count: number | null): SpoolInput => {
    return gapRow({ asset, from, to, reason: 'spool-corrupt', detail, ...(count === null ? {} : { count }) });
  };
  return [of(gateway, missing), ...Array.from(assets, (asset) => of(asset, null))];
}

/** A gap as a row of the gateway's own, which comes from no topic of the plant. */
export function gapRow(gap: Gap): SpoolInput {
  return {
    topic: `$gap/${gap.asset}`,
    payload: encodeGapPayload(gap),
    qos: 1,
    retain: false,
    props: null,
    type: 'g',
    asset: gap.asset,
    metric: null,
    deviceTs: gap.to,
  };
}
