/** What the modbus commands show to a person. */
import type { plansOf, RegisterView } from '../gateway/commissioning.js';

type Plan = ReturnType<typeof plansOf>[number];

/** Orders side by side: the four of 32 bits, or half of the eight of 64. */
const ORDERS_SHOWN = 4;
/** An order of eight letters and a 64-bit integer. */
const CELL_CHARS = 29;
/** More tags of a read than this are counted, not listed. */
const TAGS_SHOWN_MAX = 6;

export function registerLines({ at, hex, readings, texts, bits }: RegisterView): string[] {
  const lines = [`${at}  ${hex.replaceAll(/(....)(?=.)/g, '$1 ')}`];
  if (bits.length > 0) return [...lines, `bits    ${bits.map(Number).join('')}`];
  for (const { type, values } of readings)
    for (let i = 0; i < values.length; i += ORDERS_SHOWN) {
      const row = values.slice(i, i + ORDERS_SHOWN).map(({ order, value }) => `${order} ${value ?? '-'}`);
      lines.push(
        `${(i === 0 ? type : '').padEnd(7)} ${row.map((cell) => cell.padEnd(CELL_CHARS)).join(' ')}`.trimEnd(),
      );
    }
  for (const { order, value } of texts) lines.push(`string  ${order.padEnd(9)} ${JSON.stringify(value)}`);
  return lines;
}

export function planLines({ target, groups, load }: Plan): string[] {
  const lines: string[] = [];
  for (const { asset, unit, everyMs, reads, cycleMs } of groups) {
    const busy = percent(cycleMs / everyMs);
    lines.push(
      `${asset} (unit ${unit}) every ${everyMs} ms: ${reads.length} reads, ${cycleMs.toFixed(1)} ms, ${busy} of the line`,
    );
    for (const { at, fc, quantity, tags, ms } of reads)
      lines.push(
        `  ${at.padEnd(9)} +${String(quantity).padEnd(4)} function ${fc}  ${ms.toFixed(1).padStart(6)} ms  ${named(tags)}`,
      );
  }
  const verdict = load > 1 ? ': too much, cycles will be missed' : '';
  return [...lines, `${target}: busy ${percent(load)} of the time${verdict}`, ''];
}

/** Integers that no double holds are written out as text. */
export function bigintText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

function named(tags: readonly string[]): string {
  const more = tags.length - TAGS_SHOWN_MAX;
  return tags.slice(0, TAGS_SHOWN_MAX).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
