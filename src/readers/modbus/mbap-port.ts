import { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import { assert } from '../../lib/assert.js';
import { HoldfastError } from '../../lib/errors.js';
import { deadline } from '../deadline.js';
import { crc16 } from './crc16.js';

/**
 * One Modbus TCP connection as the port of modbus-serial's core: the core makes and reads the PDUs, this class owns the
 * socket and the MBAP framing [Modbus Messaging on TCP/IP 1.0b, 3.1].
 *
 * - A port is one connection and is never reopened, so no byte and no transaction of an old connection can reach a new one.
 * - Transaction ids run over all 16 bits and are mapped to the small slots that the core files its transactions under. An
 *   answer whose id is not waiting is late: it is counted and dropped, never taken for the answer to a later question.
 * - A header that is no MBAP header means that the place in the stream is lost. The connection ends; nothing is guessed.
 * - It emits `data` (one frame with the CRC that the core insists on), `late` (the unit), and `down` (the reason) exactly
 *   once, at once, whatever ended the connection. It never emits `error`.
 */
export class MbapPort extends EventEmitter {
  /** The core files the next request under this slot, and looks for the next answer under the other. */
  _transactionIdWrite = 0;
  _transactionIdRead = 0;

  private readonly socket: Socket;
  private readonly slotOfTid = new Map<number, number>();
  private readonly freeSlots = Array.from({ length: IN_FLIGHT_MAX }, (_, i) => i);
  /** Starts anywhere: a device or gateway that keeps answers over a reconnect then hits our range only by chance. */
  private tid = Math.floor(Math.random() * 0x10000);
  private received: Buffer = Buffer.alloc(0);
  private up = true;

  private constructor(socket: Socket) {
    super();
    this.socket = socket;
    socket.on('data', (chunk) => this.onData(chunk));
    socket.on('error', (cause) => this.end(linkError('The connection broke', cause)));
    // FIN: the device will not answer any more, so nobody needs to wait until the socket is closed on both sides.
    socket.on('end', () => this.end(linkError('The device closed the connection')));
    socket.on('close', () => this.end(linkError('The connection closed')));
  }

  /** Throws `device.link`; a socket that is not connected in time is destroyed, so it cannot take a place at the device later. */
  static connect(options: ConnectOptions): Promise<MbapPort> {
    const { host, port, connectTimeoutMs, signal } = options;
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
      const settle = () => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        socket.off('connect', onConnect);
      };
      const fail = (error: HoldfastError) => {
        settle();
        socket.destroy();
        reject(error);
      };
      const onConnect = () => {
        settle();
        socket.off('error', onError);
        resolve(new MbapPort(socket));
      };
      const onError = (cause: Error) => fail(linkError(`No connection to ${host}:${port}`, cause));
      const onAbort = () => fail(linkError('The connection is no longer wanted'));
      const cancel = deadline(connectTimeoutMs, () =>
        fail(linkError(`No connection to ${host}:${port} within ${connectTimeoutMs} ms`)),
      );
      socket.on('connect', onConnect);
      // Stays until the connection stands: an error that a destroyed socket still reports must not end the process.
      socket.on('error', onError);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  get isOpen(): boolean {
    return this.up;
  }

  /** An answer has begun and not ended. */
  get isInsideFrame(): boolean {
    return this.received.length > 0;
  }

  /** Takes a slot for the request that the core writes next; give it back when that request has settled. */
  reserve(): number {
    const slot = this.freeSlots.pop();
    assert(slot !== undefined, 'more requests in flight than a port has slots', { slots: IN_FLIGHT_MAX });
    this._transactionIdWrite = slot;
    return slot;
  }

  /** From here on an answer to that request is late. */
  release(slot: number): void {
    for (const [tid, owner] of this.slotOfTid) if (owner === slot) this.slotOfTid.delete(tid);
    this.freeSlots.push(slot);
  }

  /** Called by the core once, to take its listeners in place; the socket is connected by then. */
  open(callback: (error?: Error) => void): void {
    callback();
  }

  /** Called by the core with unit, PDU and CRC; the CRC has no place on TCP. */
  write(frame: Buffer): void {
    const length = frame.length - CRC_BYTES;
    this.tid = (this.tid + 1) & 0xffff;
    this.slotOfTid.set(this.tid, this._transactionIdWrite);
    const out = Buffer.alloc(HEADER_BYTES + length);
    out.writeUInt16BE(this.tid, 0);
    out.writeUInt16BE(length, 4);
    frame.copy(out, HEADER_BYTES, 0, length);
    this.socket.write(out);
  }

  /** Ends the connection now, without waiting for the peer. */
  end(reason: HoldfastError): void {
    if (!this.up) return;
    this.up = false;
    this.socket.destroy();
    this.emit('down', reason);
  }

  private onData(chunk: Buffer): void {
    this.received = this.received.length > 0 ? Buffer.concat([this.received, chunk]) : chunk;
    while (this.up && this.received.length >= HEADER_BYTES) {
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
    const slot = this.slotOfTid.get(tid);
    if (slot === undefined) {
      this.emit('late', frame[0]);
      return;
    }
    this.slotOfTid.delete(tid);
    this._transactionIdRead = slot;
    const withCrc = Buffer.allocUnsafe(frame.length + CRC_BYTES);
    frame.copy(withCrc);
    withCrc.writeUInt16LE(crc16(frame), frame.length);
    this.emit('data', withCrc);
  }
}

export interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  readonly connectTimeoutMs: number;
  /** Aborts the attempt, not the connection. */
  readonly signal: AbortSignal;
}

/** Transaction id, protocol id and length; the unit id is counted in the length. */
const HEADER_BYTES = 6;
const CRC_BYTES = 2;
/** Unit id and function code. */
const LENGTH_MIN = 2;
/** Unit id and the longest PDU [Modbus Application Protocol 1.1b3, 4.1]. */
const LENGTH_MAX = 254;
/** More than any device takes: the specification speaks of 1 to 16 [Modbus Messaging on TCP/IP 1.0b, 4.4.1.2]. */
const IN_FLIGHT_MAX = 32;
/** A firewall forgets an idle connection after minutes at the earliest. */
const KEEP_ALIVE_MS = 10_000;

function linkError(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError('device.link', message, cause === undefined ? {} : { cause });
}
