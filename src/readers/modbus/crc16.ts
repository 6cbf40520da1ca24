const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xa001 : crc >>> 1;
  return crc;
});

/** The CRC of the RTU framing, sent low byte first [Modbus over Serial Line 1.02, 2.5.1.2]. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0xffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] as number);
  return crc;
}

export const CRC_BYTES = 2;

/** A copy of `bytes` with their CRC behind them. */
export function withCrc(bytes: Uint8Array, crc = crc16(bytes)): Buffer {
  const frame = Buffer.allocUnsafe(bytes.length + CRC_BYTES);
  frame.set(bytes);
  frame.writeUInt16LE(crc, bytes.length);
  return frame;
}

/** Whether a frame ends in the CRC of what is before it. */
export function hasRightCrc(frame: Buffer): boolean {
  return (
    frame.length > CRC_BYTES && frame.readUInt16LE(frame.length - CRC_BYTES) === crc16(frame.subarray(0, -CRC_BYTES))
  );
}
