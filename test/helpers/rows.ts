import type { Epoch, GatewayId, Millis, Seq } from '../../src/model/ids.js';
import type { Reading, ReadingType, ReadingValue } from '../../src/model/reading.js';
import type { Source, SpoolRow } from '../../src/model/row.js';
import { encodeGapPayload, type GapBody } from '../../src/wire/gap.js';
import { encodeReadingPayload } from '../../src/wire/reading.js';

export const T0 = 1_790_000_000_000;

export function source(gateway = 'line-1', epoch = '01J9ZQ3K6W8F'): Source {
  return { gateway: gateway as GatewayId, epoch: epoch as Epoch };
}

export function reading(type: ReadingType, value: ReadingValue, over: Partial<Reading> = {}): Reading {
  return { asset: 'press01', metric: 'temperature', ts: T0 as Millis, type, value, quality: 192, ...over };
}

export function readingRow(seq: number, reading: Reading, over: Partial<SpoolRow> = {}): SpoolRow {
  const { asset, metric, ts, type } = reading;
  return {
    ...row(seq, encodeReadingPayload(reading)),
    topic: `plant/${asset}/${metric}`,
    type,
    asset,
    metric,
    deviceTs: ts,
    ...over,
  };
}

export function gapRow(seq: number, asset: string, metric: string | null, gap: GapBody): SpoolRow {
  return {
    ...row(seq, encodeGapPayload(gap)),
    topic: `plant/${asset}/gap`,
    type: 'g',
    asset,
    metric,
    deviceTs: gap.to,
  };
}

export function opaqueRow(seq: number, payload: Uint8Array, over: Partial<SpoolRow> = {}): SpoolRow {
  return { ...row(seq, payload), ...over };
}

function row(seq: number, payload: Uint8Array): SpoolRow {
  return {
    seq: seq as Seq,
    topic: 'raw/things',
    payload,
    qos: 1,
    retain: false,
    props: null,
    type: 'p',
    asset: null,
    metric: null,
    deviceTs: null,
    enqueuedAt: (T0 + seq) as Millis,
  };
}
