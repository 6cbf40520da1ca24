/** Figures for people. */

export const number = (value: number): string => value.toLocaleString('en-US');

export function duration(ms: number | null): string {
  if (ms === null) return '–';
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 1) return '<1 s';
  if (s < 120) return `${s} s`;
  if (s < 7_200) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${(s / 3_600).toFixed(1)} h`;
  return `${(s / 86_400).toFixed(1)} d`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  const scaled = value / 1024 ** power;
  return `${power === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${UNITS[power]}`;
}

/** Lines of `name  text` with the texts in one column. */
export function rows(pairs: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`);
}
