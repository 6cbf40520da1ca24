import type { Quality } from '../model/reading.js';

/** OPC DA quality codes by name [OPC DA 3.00 §6.8]. Others travel as their number, so every code survives exactly. */
const NAMES: Readonly<Record<string, Quality>> = {
  good: 192,
  'good:local-override': 216,
  uncertain: 64,
  'uncertain:last-usable': 68,
  'uncertain:sensor-accuracy': 80,
  'uncertain:range': 84,
  'uncertain:sub-normal': 88,
  bad: 0,
  'bad:configuration': 4,
  'bad:not-connected': 8,
  'bad:device-failure': 12,
  'bad:sensor-failure': 16,
  'bad:last-known': 20,
  'bad:comm-failure': 24,
  'bad:out-of-service': 28,
  'bad:waiting': 32,
};

const byName = new Map(Object.entries(NAMES));
const byCode = new Map(Object.entries(NAMES).map(([name, code]) => [code, name]));

/** The OPC byte, and above it the byte that OPC leaves to vendors. */
const QUALITY_MAX = 0xffff;

export function isQuality(value: unknown): value is Quality {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= QUALITY_MAX;
}

/** The name of a code, or the code itself when it has none. */
export function qualityText(quality: Quality): string | number {
  return byCode.get(quality) ?? quality;
}

/** The code of a name or of a number, or undefined when it is neither. */
export function parseQuality(text: unknown): Quality | undefined {
  if (typeof text === 'string') return byName.get(text);
  return isQuality(text) ? text : undefined;
}
