import { type ByteOrder, LONG_ORDERS } from '../../model/modbus.js';

export const isLongOrder = (order: ByteOrder): boolean => (LONG_ORDERS as readonly string[]).includes(order);

/**
 * Where each byte of a value, the most significant first, is found on the wire; undefined when it lies there just so.
 * `text` has a fixed sequence of registers.
 */
export function wirePlaces(order: ByteOrder, bytes: number, text: boolean): readonly number[] | undefined {
  const places = isLongOrder(order)
    ? Array.from({ length: bytes }, (_, i) => order.indexOf(String.fromCharCode(0x41 + i)))
    : shortPlaces(order, bytes, text);
  return places.every((place, i) => place === i) ? undefined : places;
}

function shortPlaces(order: ByteOrder, bytes: number, text: boolean): number[] {
  const swapBytes = order === 'BADC' || order === 'DCBA';
  const swapRegisters = (order === 'CDAB' || order === 'DCBA') && !text;
  return Array.from({ length: bytes }, (_, i) => {
    const register = swapRegisters ? bytes / 2 - 1 - (i >>> 1) : i >>> 1;
    return register * 2 + (swapBytes ? 1 - (i & 1) : i & 1);
  });
}
