import { LONG_ORDERS, registersOf, SHORT_ORDERS, TAG_TYPES, type TagType } from '../../model/modbus.js';
import { decoderOf, type Raw } from './decode.js';

/** What the same registers mean as one type, in every order in which it can be written. */
export interface Reading {
  readonly type: TagType;
  readonly values: readonly { readonly order: string; readonly value: Raw }[];
}

/** Types of one bit or one byte say no more than the hexadecimal digits do. */
const TYPES = TAG_TYPES.filter((type) => !['bool', 'i8', 'u8', 'string'].includes(type));

/** Every meaning of the first registers, for finding out what a manual does not say. */
export function readingsOf(registers: Buffer): Reading[] {
  return TYPES.filter((type) => registersOf({ type, length: 0, chars: 'both' }) * 2 <= registers.length).map((type) => {
    const orders = type.endsWith('64') ? LONG_ORDERS : type.endsWith('16') ? SHORT_ORDERS.slice(0, 2) : SHORT_ORDERS;
    return {
      type,
      values: orders.map((order) => ({
        order,
        value: decoderOf({ type, order, bits: null, length: 0, chars: 'both' })(registers, 0),
      })),
    };
  });
}

/** As text, in both orders of its bytes. */
export function textsOf(registers: Buffer): { readonly order: string; readonly value: Raw }[] {
  return SHORT_ORDERS.slice(0, 2).map((order) => ({
    order,
    value: decoderOf({ type: 'string', order, bits: null, length: registers.length, chars: 'both' })(registers, 0),
  }));
}
