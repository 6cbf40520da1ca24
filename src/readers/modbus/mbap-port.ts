import { assert } from '../../lib/assert.js';
import { HoldfastError } from '../../lib/errors.js';
import { CRC_BYTES } from './crc16.js';
import type { Line } from './line.js';
import { Port } from './port.js';

/**
 * The framing of Modbus TCP [Modbus Messaging on TCP/IP 1.0b, 3.1].
 *
 * - Transaction ids run over all 16 bits and are mapped to the small slots that the core files its transactions under. An
 *   answer whose id is not waiting is late: it is counted and dropped, never taken for the answer to a later question.
 * - A header that is no MBAP header means that the place in the stream is lost. The connection ends; nothing is guessed.
 */
export class MbapPort extends Port {
  private readonly acceptAnyUnit: boolean;
  private readonly waiting = new Map<number, { readonly slot: number; readonly unit: number }>();
  private readonly freeSlots = Array.from({ length: IN_FLIGHT_MAX }, (_, i) => i);
  /** Starts anywhere: a device or gateway that keeps answers over a reconnect then hits our range only by chance. */
  private tid = Math.floor(Math.random() * 0x10000);
  private received: Buffer = Buffer.alloc(0);

  /** `acceptAnyUnit`: the transaction id alone says whose answer it is, for devices that always answer as unit 1 or 255. */
  constructor(line: Line, acceptAnyUnit: boolean) {
    super(line);
    this.acceptAnyUnit = acceptAnyUnit;
  }

  get isInsideFrame(): boolean {
    return this.received.length > 0;
  }

  reserve(): number {
    const slot = this.freeSlots.pop();
    assert(slot !== undefined, 'more requests in flight than a port has slots', { slots: IN_FLIGHT_MAX });
    this._transactionIdWrite = slot;
    return slot;
  }

  release(slot: number): void {
    for (const [tid, owner] of this.waiting) if (owner.slot === slot) this.waiting.delete(tid);
    this.freeSlots.push(slot);
  }

  /** The CRC has no place on TCP. */
  write(frame: Buffer): void {
    const length = frame.length - CRC_BYTES;
    this.tid = (this.tid + 1) & 0xffff;
    this.waiting.set(this.tid, { slot: this._transactionIdWrite, unit: frame.readUInt8(0) });
    const out = Buffer.alloc(HEADER_BYTES + length);
    out.writeUInt16BE(this.tid, 0);
    out.writeUInt16BE(length, 4);
    frame.copy(out, HEADER_BYTES, 0, length);
    this.send(out);
  }

  protected receive(chunk: Buffer): void {
    this.received = this.received.length > 0 ? Buffer.concat([this.received, chunk]) : chunk;
    while (this.isOpen && this.received.length >= HEADER_BYTES) {
      const protocol = this.received.readUInt16BE(2);
      const length = this.received.readUInt16BE(4);
      if (protocol !== 0 || length < LENGTH_MIN || length > LENGTH_MAX) {
        const values = { protocol, length };
        this.end(new HoldfastError('device.protocol', 'The device sent something that is no Modbus TCP', { values }));
        return;
      }
      const frame = this.received.subarray(HEADER_BYTES, HEADER_BYTES + length);
      if (frame.length < length) return;
      const tid = this.received.readUInt16BE(0);
      this.received = this.received.subarray(HEADER_BYTES + length);
      this.onFrame(tid, frame);
    }
  }

  private onFrame(tid: number, frame: Buffer): void {
    const asked = this.waiting.get(tid);
    if (asked === undefined) {
      this.emit('late', frame[0]);
      return;
    }
    this.waiting.delete(tid);
    if (this.acceptAnyUnit) frame[0] = asked.unit;
    this.deliver(asked.slot, frame);
  }
}

/** Transaction id, protocol id and length; the unit id is counted in the length. */
const HEADER_BYTES = 6;
/** Unit id and function code. */
const LENGTH_MIN = 2;
/** Unit id and the longest PDU [Modbus Application Protocol 1.1b3, 4.1]. */
const LENGTH_MAX = 254;
/** More than any device takes: the specification speaks of 1 to 16 [Modbus Messaging on TCP/IP 1.0b, 4.4.1.2]. */
const IN_FLIGHT_MAX = 32;
