/** What a row says: the tag as the config has it, and where it belongs. */
export interface ImportedTag {
  readonly asset: string | undefined;
  readonly unit: number | undefined;
  readonly every: string;
  readonly writable: boolean;
  readonly tag: Readonly<Record<string, unknown>>;
}

/** A plain number from 0 becomes a PDU address; from 1 it stays as the manual has it. */
export function addressOf(text: string, base: 0 | 1): string {
  const plain = /^([0134])(\d{4,5})(\..+)?$/.exec(text);
  if (!plain || base === 1) return text;
  const tables: Readonly<Record<string, string>> = { 0: 'co', 1: 'di', 3: 'ir', 4: 'hr' };
  return `${tables[plain[1] as string]}:${Number(plain[2])}${plain[3] ?? ''}`;
}

export function numberOf(text: string, what: string): number {
  // A spreadsheet with semicolons writes decimals with a comma.
  const value = Number(text.replace(/^(-?\d+),(\d+)$/, '$1.$2'));
  if (!Number.isFinite(value)) throw new Error(`${what}: expected a number, found ${JSON.stringify(text)}`);
  return value;
}
