import { Buffer } from 'node:buffer';
import type { UnitImage } from './registers.js';

/** Unit, length, protocol and transaction before the PDU [Modbus Messaging on TCP/IP V1.0b §3.1.3]. */
export const MBAP_BYTES = 7;
/** Unit and at least a function code; at most a PDU of 253 bytes and the unit. */
const LENGTH_MIN = 2;
const LENGTH_MAX = 254;
/** Per request [Modbus Application Protocol V1.1b3 §6.1–6.4]. */
export const REGISTERS_MAX = 125;
export const COILS_MAX = 2000;

export const EXCEPTION = { illegalFunction: 1, illegalAddress: 2, illegalValue: 3, targetFailed: 11 } as const;

export interface Request {
  readonly transaction: number;
  readonly unit: number;
  readonly pdu: Buffer;
}

/** What a successful read covered. */
export interface Read {
  readonly table: 'registers' | 'coils';
  readonly from: number;
  readonly quantity: number;
}

/** The first request in `bytes` and the bytes after it; `incomplete` asks for more; `garbage` is no Modbus/TCP. */
export function takeRequest(bytes: Buffer): { request: Request; rest: Buffer } | 'incomplete' | 'garbage' {
  if (bytes.length < MBAP_BYTES) return 'incomplete';
  const length = bytes.readUInt16BE(4);
  if (bytes.readUInt16BE(2) !== 0 || length < LENGTH_MIN || length > LENGTH_MAX) return 'garbage';
  const end = MBAP_BYTES - 1 + length;
  if (bytes.length < end) return 'incomplete';
  const request = { transaction: bytes.readUInt16BE(0), unit: bytes[6]!, pdu: bytes.subarray(MBAP_BYTES, end) };
  return { request, rest: bytes.subarray(end) };
}

export function frame(request: Request, pdu: Buffer): Buffer {
  const header = Buffer.alloc(MBAP_BYTES);
  header.writeUInt16BE(request.transaction, 0);
  header.writeUInt16BE(pdu.length + 1, 4);
  header[6] = request.unit;
  return Buffer.concat([header, pdu]);
}

export function exceptionPdu(functionCode: number, code: number): Buffer {
  return Buffer.from([functionCode | 0x80, code]);
}

/** The answer to a read of FC 1 to 4, and what it read unless the answer is an exception. */
export function answer(pdu: Buffer, image: UnitImage): { pdu: Buffer; read: Read | undefined } {
  const code = pdu[0]!;
  const refuse = (exception: number) => ({ pdu: exceptionPdu(code, exception), read: undefined });
  if (code < 1 || code > 4) return refuse(EXCEPTION.illegalFunction);
  if (pdu.length !== 5) return refuse(EXCEPTION.illegalValue);
  const table = code <= 2 ? 'coils' : 'registers';
  const from = pdu.readUInt16BE(1);
  const quantity = pdu.readUInt16BE(3);
  if (quantity < 1 || quantity > (table === 'coils' ? COILS_MAX : REGISTERS_MAX)) return refuse(EXCEPTION.illegalValue);
  const size = table === 'coils' ? image.coils.length : image.registers.length / 2;
  if (from + quantity > size) return refuse(EXCEPTION.illegalAddress);
  const data =
    table === 'coils' ? pack(image.coils, from, quantity) : image.registers.subarray(from * 2, (from + quantity) * 2);
  return { pdu: Buffer.concat([Buffer.from([code, data.length]), data]), read: { table, from, quantity } };
}

/** The first coil is the lowest bit of the first byte. */
function pack(coils: readonly boolean[], from: number, quantity: number): Buffer {
  const bytes = Buffer.alloc(Math.ceil(quantity / 8));
  for (let bit = 0; bit < quantity; bit++) if (coils[from + bit]) bytes[bit >> 3]! |= 1 << (bit & 7);
  return bytes;
}
