import { assert } from '../../lib/assert.js';
import { CRC_BYTES, hasRightCrc } from './crc16.js';
import type { Line } from './line.js';
import { Port } from './port.js';
import { answerBytes } from './rtu-answer.js';

/**
 * The RTU framing, over a serial line or a socket [Modbus over Serial Line 1.02, 2.5.1].
 *
 * - Silence, which delimits frames on the wire, does not survive a driver or a network. A frame is therefore found by what
 *   it must be: unit, function, length and CRC have to fit the question. Everything before it is noise and is skipped.
 * - One request is on the line at a time. What was received before it was sent is forgotten.
 * - There is no transaction id: an answer that comes when nobody waits is late. That a late one is not taken for the answer
 *   to the next question is the task of `Resync`.
 */
export class RtuPort extends Port {
  private readonly localEcho: boolean;
  private asked: Buffer | undefined;
  private busy = false;
  private received: Buffer = Buffer.alloc(0);
  /** Bytes of our own that the line still has to give back. */
  private echoLeft = 0;
  private lateCounted = false;

  /** `localEcho`: a two-wire adapter that hears itself; without this an echoed write would pass for its own answer. */
  constructor(line: Line, localEcho: boolean) {
    super(line);
    this.localEcho = localEcho;
  }

  /** Never lost for good: the next frame is found in whatever comes. */
  get isInsideFrame(): boolean {
    return false;
  }

  reserve(): number {
    assert(!this.busy, 'one request at a time on an RTU line');
    this.busy = true;
    this._transactionIdWrite = SLOT;
    return SLOT;
  }

  release(): void {
    this.busy = false;
    this.asked = undefined;
  }

  write(frame: Buffer): void {
    this.received = Buffer.alloc(0);
    this.asked = frame;
    this.lateCounted = false;
    this.echoLeft = this.localEcho ? frame.length : 0;
    this.send(frame);
  }

  protected receive(chunk: Buffer): void {
    const { asked } = this;
    if (!asked) {
      // It comes in pieces, and is one.
      if (!this.lateCounted) this.emit('late', chunk[0]);
      this.lateCounted = true;
      return;
    }
    const echo = Math.min(this.echoLeft, chunk.length);
    this.echoLeft -= echo;
    this.received = Buffer.concat([this.received, chunk.subarray(echo)]);
    const frame = findAnswer(asked, this.received);
    if (frame) {
      this.received = Buffer.alloc(0);
      this.asked = undefined;
      this.deliver(SLOT, frame.subarray(0, -CRC_BYTES));
    } else if (this.received.length > NOISE_BYTES_MAX) this.received = this.received.subarray(-NOISE_BYTES_KEPT);
  }
}

/** The first frame in `received` that answers `asked`. */
function findAnswer(asked: Buffer, received: Buffer): Buffer | undefined {
  for (let at = 0; at + FRAME_BYTES_MIN <= received.length; at++) {
    const bytes = answerBytes(asked, received.subarray(at));
    if (bytes === undefined || at + bytes > received.length) continue;
    const frame = received.subarray(at, at + bytes);
    if (hasRightCrc(frame)) return Buffer.from(frame);
  }
  return undefined;
}

const SLOT = 1;
/** Unit, function, exception code and CRC. */
const FRAME_BYTES_MIN = 5;
/** Twice the longest frame holds any answer with as much noise before it [Modbus over Serial Line 1.02, 2.5.1: 256 bytes]. */
const NOISE_BYTES_KEPT = 512;
const NOISE_BYTES_MAX = 4096;
