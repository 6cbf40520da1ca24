/**
 * The register map of the simulated bottling line: four machines, Modbus units 1 to 4, the same layout in each. The
 * input registers (FC4) mirror the holding registers (FC3) and the discrete inputs (FC2) mirror the coils (FC1).
 *
 * | at    | type   | tag         | meaning                                                     |
 * |-------|--------|-------------|-------------------------------------------------------------|
 * | hr:0  | u16    | state       | 0 stopped, 1 running, 2 starved, 3 blocked, 4 fault         |
 * | hr:1  | u32    | good        | bottles passed on; wraps at 2³²; the filler starts above 2³¹ |
 * | hr:3  | u32    | reject      | bottles thrown out                                          |
 * | hr:5  | f32    | speed       | bottles per minute                                          |
 * | hr:7  | i16    | temperature | 0.1 °C; the filler's product is chilled below zero at times |
 * | hr:8  | u64    | energy      | Wh; the palletizer starts above 2⁵³                         |
 * | hr:12 | string | recipe      | 16 bytes of ASCII, padded with NUL                          |
 * | co:0  | bool   | running     | state = 1                                                   |
 *
 * Words are big-endian and in ABCD order, except the 32-bit tags of the labeler: there the low word comes first (CDAB).
 */
export const LINE_ASSETS = ['filler', 'capper', 'labeler', 'palletizer'] as const;
export type LineAsset = (typeof LINE_ASSETS)[number];

export type LineTagType = 'bool' | 'u16' | 'i16' | 'u32' | 'u64' | 'f32' | 'string';
export type LineTagName = 'state' | 'good' | 'reject' | 'speed' | 'temperature' | 'energy' | 'recipe' | 'running';

export interface LineTag {
  readonly asset: LineAsset;
  readonly unit: number;
  readonly name: LineTagName;
  /** `hr:` holding register or `co:` coil, address as in the PDU, counted from 0. */
  readonly at: `${'hr' | 'co'}:${number}`;
  readonly type: LineTagType;
  readonly order: 'ABCD' | 'CDAB';
  /** The value is raw × scale. */
  readonly scale?: number;
  /** Bytes, for strings. */
  readonly length?: number;
}

/** Registers 0 to 19 and coil 0 exist; everything else answers exception 2. */
export const REGISTERS = 20;
export const COILS = 1;

export const RECIPE_BYTES = 16;
export const TEMPERATURE_SCALE = 0.1;

const LAYOUT: readonly Omit<LineTag, 'asset' | 'unit' | 'order'>[] = [
  { name: 'state', at: 'hr:0', type: 'u16' },
  { name: 'good', at: 'hr:1', type: 'u32' },
  { name: 'reject', at: 'hr:3', type: 'u32' },
  { name: 'speed', at: 'hr:5', type: 'f32' },
  { name: 'temperature', at: 'hr:7', type: 'i16', scale: TEMPERATURE_SCALE },
  { name: 'energy', at: 'hr:8', type: 'u64' },
  { name: 'recipe', at: 'hr:12', type: 'string', length: RECIPE_BYTES },
  { name: 'running', at: 'co:0', type: 'bool' },
];

export const LINE_TAGS: readonly LineTag[] = LINE_ASSETS.flatMap((asset, index) =>
  LAYOUT.map(
    (tag): LineTag => ({
      asset,
      unit: index + 1,
      order: asset === 'labeler' && (tag.type === 'u32' || tag.type === 'f32') ? 'CDAB' : 'ABCD',
      ...tag,
    }),
  ),
);
