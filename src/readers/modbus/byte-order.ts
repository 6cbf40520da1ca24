/**
 * How the bytes of a value lie on the wire, A the most significant, in the order in which they are sent. `BADC` swaps the
 * bytes of each register, `CDAB` the registers of the value, `DCBA` both; so the 64-bit forms of the four are ABCDEFGH,
 * BADCFEHG, GHEFCDAB and HGFEDCBA, a 16-bit value is AB or BA, and a string has only its bytes swapped, never its registers.
 */
export const SHORT_ORDERS = ['ABCD', 'BADC', 'CDAB', 'DCBA'] as const;

/** Written out for 64-bit values, with those in which each half keeps its place or changes it as a whole. */
export const LONG_ORDERS = [
  'ABCDEFGH',
  'BADCFEHG',
  'CDABGHEF',
  'DCBAHGFE',
  'EFGHABCD',
  'FEHGBADC',
  'GHEFCDAB',
  'HGFEDCBA',
] as const;

export const BYTE_ORDERS = [...SHORT_ORDERS, ...LONG_ORDERS] as const;
export type ByteOrder = (typeof BYTE_ORDERS)[number];

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
