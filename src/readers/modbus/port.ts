import { EventEmitter } from 'node:events';
import type { HoldfastError } from '../../lib/errors.js';
import { withCrc } from './crc16.js';
import { type Line, linkError } from './line.js';

/**
 * One connection as the port of modbus-serial's core: the core makes and reads the PDUs, a port owns the line and the
 * framing.
 *
 * - A port is one connection and is never reopened, so no byte and no transaction of an old connection can reach a new one.
 * - It emits `answer` (the slot, and unit and PDU), `late` (the unit), and `down` (the reason) exactly once, at once,
 *   whatever ended the connection. It never emits `error`.
 */
export abstract class Port extends EventEmitter {
  /** The core files the next request under this slot, and looks for the next answer under the other. */
  _transactionIdWrite = 0;
  _transactionIdRead = 0;

  private readonly line: Line;
  private up = true;

  constructor(line: Line) {
    super();
    this.line = line;
    const { stream } = line;
    stream.on('data', (chunk: Buffer) => this.up && this.receive(chunk));
    stream.on('error', (cause) => this.end(linkError('The connection broke', cause)));
    // FIN: the device will not answer any more, so nobody needs to wait until the socket is closed on both sides.
    stream.on('end', () => this.end(linkError('The device closed the connection')));
    stream.on('close', () => this.end(linkError('The connection closed')));
  }

  /** Half an answer is in, and whatever comes next would be read as its other half. */
  abstract get isInsideFrame(): boolean;
  /** Takes a slot for the request that the core writes next; give it back when that request has settled. */
  abstract reserve(): number;
  /** From here on an answer to that request is late. */
  abstract release(slot: number): void;
  /** Called by the core with unit, PDU and CRC. */
  abstract write(frame: Buffer): void;
  protected abstract receive(chunk: Buffer): void;

  get isOpen(): boolean {
    return this.up;
  }

  /** Called by the core once, to take its listeners in place; the line stands by then. */
  open(callback: (error?: Error) => void): void {
    callback();
  }

  /** Ends the connection now, without waiting for the peer. */
  end(reason: HoldfastError): void {
    if (!this.up) return;
    this.up = false;
    this.line.hangUp();
    this.emit('down', reason);
  }

  protected send(bytes: Buffer): void {
    this.line.stream.write(bytes);
  }

  /** Lets the core read an answer. It insists on a CRC, whatever the framing. */
  passToCore(slot: number, answer: Buffer): void {
    this._transactionIdRead = slot;
    this.emit('data', withCrc(answer));
  }

  protected deliver(slot: number, answer: Buffer): void {
    this.emit('answer', slot, answer);
  }
}
