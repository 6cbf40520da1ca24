/** How a row's small facts are packed on disk. */
import type { Qos } from '../model/message.js';
import type { ValueType } from '../model/reading.js';
import type { SpoolInput } from '../model/row.js';

/** Bits 0–1 QoS, bit 2 retain, bit 3 may be dropped when full, bits 4–7 the index in this list; only added to at the end. */
const TYPES: readonly ValueType[] = ['p', 'g', 'f', 'i', 'b', 's', 'x', 'j'];
const QOS_BITS = 0b11;
const RETAIN_BIT = 0b100;
const DROPPABLE_BIT = 0b1000;
const TYPE_SHIFT = 4;
const FIRST_READING_TYPE = TYPES.indexOf('f');

interface Flagged {
  readonly qos: Qos;
  readonly retain: boolean;
  readonly droppable: boolean;
  readonly type: ValueType;
}

export function flagsOf({ qos, retain, droppable, type }: Pick<SpoolInput, 'qos' | 'retain' | 'droppable' | 'type'>) {
  return (
    qos | (retain ? RETAIN_BIT : 0) | (droppable === true ? DROPPABLE_BIT : 0) | (TYPES.indexOf(type) << TYPE_SHIFT)
  );
}

export function fromFlags(flags: number): Flagged {
  return {
    qos: (flags & QOS_BITS) as Qos,
    retain: (flags & RETAIN_BIT) !== 0,
    droppable: isDroppable(flags),
    type: typeOf(flags),
  };
}

export function typeOf(flags: number): ValueType {
  return TYPES[flags >> TYPE_SHIFT] ?? 'p';
}

export function isDroppable(flags: number): boolean {
  return (flags & DROPPABLE_BIT) !== 0;
}

export function isReading(flags: number): boolean {
  return flags >> TYPE_SHIFT >= FIRST_READING_TYPE;
}

/** Of rows that the gateway itself writes. */
export const OWN_FLAGS = flagsOf({ qos: 1, retain: false, type: 'p' });
