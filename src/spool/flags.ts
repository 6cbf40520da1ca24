import type { Qos } from '../model/message.js';
import type { ValueType } from '../model/reading.js';

/**
 * On disk: bits 0–1 QoS, bit 2 retain, bit 3 may be dropped when the spool is full, bits 4–7 the index of the type in this
 * list. Only ever added to at the end.
 */
const TYPES: readonly ValueType[] = ['p', 'g', 'f', 'i', 'b', 's', 'x', 'j'];
const QOS_BITS = 0b11;
const RETAIN_BIT = 0b100;
const DROPPABLE_BIT = 0b1000;
const TYPE_SHIFT = 4;
const TYPE_BITS = Object.fromEntries(TYPES.map((type, i) => [type, i << TYPE_SHIFT])) as Record<ValueType, number>;
const FIRST_READING_TYPE = TYPES.indexOf('f');

interface Flagged {
  readonly qos: Qos;
  readonly retain: boolean;
  readonly type: ValueType;
  readonly droppable?: boolean;
}

export function flagsOf({ qos, retain, type, droppable }: Flagged): number {
  return qos | (retain ? RETAIN_BIT : 0) | (droppable ? DROPPABLE_BIT : 0) | TYPE_BITS[type];
}

export function fromFlags(flags: number): Flagged & { readonly droppable: boolean } {
  return {
    qos: (flags & QOS_BITS) as Qos,
    retain: (flags & RETAIN_BIT) !== 0,
    droppable: isDroppable(flags),
    type: TYPES[flags >> TYPE_SHIFT] ?? 'p',
  };
}

export function isReading(flags: number): boolean {
  return flags >> TYPE_SHIFT >= FIRST_READING_TYPE;
}

export function isDroppable(flags: number): boolean {
  return (flags & DROPPABLE_BIT) !== 0;
}

/** Of rows that the gateway itself writes. */
export const OWN_FLAGS = flagsOf({ qos: 1, retain: false, type: 'p' });
