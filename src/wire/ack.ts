/**
 * What a consumer says it holds of one gateway's spool. It is the body of the message on the acknowledgement topic and of
 * the answer to an HTTP POST, always JSON:
 *
 *     {"v": 1, "gw": "line-1", "ep": "01J9ZQ3K6W8F", "through": 8123955, "missing": [[8123001, 8123500]]}
 *
 * Every seq up to `through` is stored durably or known to be given up, but for those in `missing`. `from` (1 when it is
 * absent) is where the statement begins, for consumers that cannot list all of their holes. Each statement stands alone and
 * stays true, so one may get lost, come twice or overtake another.
 */
import type { Epoch, GatewayId } from '../model/ids.js';
import type { Source } from '../model/row.js';

export interface Ack {
  readonly source: Source;
  readonly from: number;
  readonly through: number;
  /** Rising, without overlaps; both ends are in the range. */
  readonly missing: readonly AckRange[];
  /** A batch that was kept aside because it cannot be read or stored: sending it again as it is will not help. */
  readonly refused?: AckRange & { readonly reason: string };
  /** The consumer asks to be told which of the missing seqs will never come. */
  readonly ask?: boolean;
}

export interface AckRange {
  readonly from: number;
  readonly to: number;
}

const ACK_VERSION = 1;
/** Ranges in one statement; more of them fit in no sensible message, and the next statement goes on. */
export const ACK_RANGES_MAX = 200;
/** Room for all of them with seqs of sixteen digits, and for the names. */
export const ACK_BYTES_MAX = 16 * 1024;
const REASON_LENGTH_MAX = 500;

export function encodeAck({ source, from, through, missing, refused, ask }: Ack): Buffer {
  return Buffer.from(
    JSON.stringify({
      v: ACK_VERSION,
      gw: source.gateway,
      ep: source.epoch,
      ...(from !== 1 && { from }),
      through,
      missing: missing.map(({ from, to }) => [from, to]),
      ...(refused && { refused: [refused.from, refused.to, refused.reason.slice(0, REASON_LENGTH_MAX)] }),
      ...(ask && { ask }),
    }),
  );
}

/** The statement in these bytes, unknown keys left behind; undefined when they are none. Never throws. */
export function parseAck(bytes: Uint8Array): Ack | undefined {
  if (bytes.length > ACK_BYTES_MAX) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString());
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { v, gw, ep, from = 1, through, missing = [], refused, ask = false } = value as Record<string, unknown>;
  if (v !== ACK_VERSION || typeof gw !== 'string' || typeof ep !== 'string' || typeof ask !== 'boolean')
    return undefined;
  if (!isSeq(from) || !Number.isSafeInteger(through) || (through as number) < 0) return undefined;
  if (!Array.isArray(missing) || missing.length > ACK_RANGES_MAX) return undefined;
  const ranges = missing.map(rangeOf);
  let after = 0;
  for (const range of ranges) {
    if (!range || range.from <= after || range.to > (through as number)) return undefined;
    after = range.to;
  }
  const no = refused === undefined ? undefined : refusedOf(refused);
  if (refused !== undefined && !no) return undefined;
  return {
    source: { gateway: gw as GatewayId, epoch: ep as Epoch },
    from,
    through: through as number,
    missing: ranges as AckRange[],
    ...(no && { refused: no }),
    ...(ask && { ask }),
  };
}

/** Whether the statement says that every seq of the range is stored or given up. */
export function covers({ from, through, missing }: Ack, range: AckRange): boolean {
  return range.from >= from && range.to <= through && !missing.some((hole) => touches(hole, range));
}

export function touches(a: AckRange, b: AckRange): boolean {
  return a.from <= b.to && a.to >= b.from;
}

function rangeOf(value: unknown): AckRange | undefined {
  if (!Array.isArray(value)) return undefined;
  const [from, to] = value as unknown[];
  return isSeq(from) && isSeq(to) && from <= to ? { from, to } : undefined;
}

function refusedOf(value: unknown): Ack['refused'] {
  const range = rangeOf(value);
  const reason = (value as unknown[])[2];
  return range && typeof reason === 'string' ? { ...range, reason: reason.slice(0, REASON_LENGTH_MAX) } : undefined;
}

function isSeq(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
