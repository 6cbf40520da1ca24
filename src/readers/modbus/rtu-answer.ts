import { CRC_BYTES } from './crc16.js';

/** Unit and function code, which open every frame. */
const HEAD_BYTES = 2;
const EXCEPTION_BYTES = HEAD_BYTES + 1 + CRC_BYTES;
/** Unit, function, two fields of two bytes, CRC: the answer to writes. */
const WRITE_ANSWER_BYTES = 8;
const MASK_ANSWER_BYTES = 10;
/** Unit, function, MEI type, id code, conformity, more follows, next object, number of objects. */
const IDENTIFICATION_HEAD_BYTES = 8;

/**
 * How long a frame that begins with these bytes is if it answers the request, CRC included; undefined when it does not, or
 * when too little of it is there to tell. Answers to writes repeat the request, so they are compared with it.
 */
export function answerBytes(asked: Buffer, bytes: Buffer): number | undefined {
  if (bytes.length < HEAD_BYTES + 1 || bytes[0] !== asked[0]) return undefined;
  const fc = asked[1] as number;
  if (bytes[1] === (fc | 0x80)) return EXCEPTION_BYTES;
  if (bytes[1] !== fc) return undefined;
  switch (fc) {
    case 1:
    case 2:
      return counted(bytes, Math.ceil(asked.readUInt16BE(4) / 8));
    case 3:
    case 4:
    case 23:
      return counted(bytes, asked.readUInt16BE(4) * 2);
    case 5:
    case 6:
      return repeats(asked, bytes, WRITE_ANSWER_BYTES - CRC_BYTES) ? WRITE_ANSWER_BYTES : undefined;
    case 15:
    case 16:
      return repeats(asked, bytes, WRITE_ANSWER_BYTES - CRC_BYTES) ? WRITE_ANSWER_BYTES : undefined;
    case 17:
      return HEAD_BYTES + 1 + (bytes[2] as number) + CRC_BYTES;
    case 22:
      return repeats(asked, bytes, MASK_ANSWER_BYTES - CRC_BYTES) ? MASK_ANSWER_BYTES : undefined;
    case 43:
      return identificationBytes(bytes);
    default:
      return undefined;
  }
}

function counted(bytes: Buffer, wanted: number): number | undefined {
  return bytes[2] === wanted ? HEAD_BYTES + 1 + wanted + CRC_BYTES : undefined;
}

function repeats(asked: Buffer, bytes: Buffer, length: number): boolean {
  return bytes.length >= length && asked.compare(bytes, 0, length, 0, length) === 0;
}

/** Each object is an id, a length and its text [Modbus Application Protocol 1.1b3, 6.21]. */
function identificationBytes(bytes: Buffer): number | undefined {
  if (bytes.length < IDENTIFICATION_HEAD_BYTES) return undefined;
  let end = IDENTIFICATION_HEAD_BYTES;
  for (let left = bytes[7] as number; left > 0; left--) {
    const length = bytes[end + 1];
    if (length === undefined) return undefined;
    end += 2 + length;
  }
  return end + CRC_BYTES;
}
