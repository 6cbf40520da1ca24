import modbusSerial from 'modbus-serial';
import { assert } from '../../lib/assert.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import { deadline } from '../deadline.js';
import { type ConnectOptions, MbapPort } from './mbap-port.js';

export type ReadFunction = 1 | 2 | 3 | 4;

export interface ReadRequest {
  readonly fc: ReadFunction;
  /** 0 to 255: on TCP a device may well want 0. */
  readonly unit: number;
  /** The address in the PDU, from 0. */
  readonly address: number;
  readonly quantity: number;
}

/** [Modbus Application Protocol 1.1b3, 6.1 to 6.4] */
export const BITS_PER_READ_MAX = 2000;
export const REGISTERS_PER_READ_MAX = 125;

export interface ClientEvents {
  /** The connection has ended, for whatever reason; called once. */
  onDown(reason: HoldfastError): void;
  /** An answer came after its request had timed out, and was dropped. */
  onLate(unit: number): void;
}

/**
 * Reads over one connection. Every read settles, within its timeout plus two turns of the event loop, or at once when the
 * connection ends. The unit goes with each call, so calls cannot get into each other's way.
 */
export class ModbusClient {
  private readonly port: MbapPort;
  private readonly core: Core;
  private readonly pending = new Map<number, (error: HoldfastError) => void>();

  private constructor(port: MbapPort, events: ClientEvents) {
    this.port = port;
    this.core = coreOver(port);
    port.on('late', (unit: number) => events.onLate(unit));
    port.once('down', (reason: HoldfastError) => {
      for (const fail of [...this.pending.values()]) fail(reason);
      events.onDown(reason);
    });
  }

  static async connect(options: ConnectOptions, events: ClientEvents): Promise<ModbusClient> {
    return new ModbusClient(await MbapPort.connect(options), events);
  }

  /**
   * The data bytes of the answer as they came: registers high byte first, bits packed from the low bit up. Throws
   * `device.exception` (`values.code` is the Modbus exception code), `device.timeout`, `device.protocol` when the answer
   * does not fit the question, `device.link` when the connection ended or is not there.
   */
  read(request: ReadRequest, timeoutMs: number): Promise<Buffer> {
    const { fc, unit, address, quantity } = request;
    const max = fc <= 2 ? BITS_PER_READ_MAX : REGISTERS_PER_READ_MAX;
    assert(quantity >= 1 && quantity <= max && address >= 0 && address + quantity <= 0x10000, 'read within limits', {
      ...request,
    });
    if (!this.port.isOpen) return Promise.reject(new HoldfastError('device.link', 'The connection has ended'));
    return new Promise((resolve, reject) => {
      const slot = this.port.reserve();
      const settle = () => {
        cancel();
        this.pending.delete(slot);
        this.port.release(slot);
        delete this.core._transactions[slot];
      };
      const fail = (error: HoldfastError) => {
        settle();
        reject(error);
      };
      const cancel = deadline(timeoutMs, () => {
        const values = { ...request, timeoutMs };
        // Half an answer: whatever comes next on this connection would be read as its other half.
        if (this.port.isInsideFrame)
          this.port.end(new HoldfastError('device.protocol', 'The device sent half an answer', { values }));
        else fail(new HoldfastError('device.timeout', `No answer within ${timeoutMs} ms`, { values }));
      });
      this.pending.set(slot, fail);
      this.core[`writeFC${fc}`](unit, address, quantity, (error, answer) => {
        const bytesWanted = fc <= 2 ? Math.ceil(quantity / 8) : quantity * 2;
        if (error) fail(asDeviceError(error, request));
        else if (answer?.buffer.length !== bytesWanted)
          fail(new HoldfastError('device.protocol', 'The answer is not as long as asked', { values: { ...request } }));
        else {
          settle();
          resolve(answer.buffer);
        }
      });
    });
  }

  /** Rejects what is pending with `device.link`; never waits for the peer. */
  close(reason = new HoldfastError('device.link', 'The reader closed the connection')): void {
    this.port.end(reason);
  }
}

function asDeviceError(error: ModbusError, request: ReadRequest): HoldfastError {
  const { modbusCode: code } = error;
  if (code === undefined)
    return new HoldfastError('device.protocol', `The answer does not fit: ${messageOf(error)}`, {
      values: { ...request },
      cause: error,
    });
  return new HoldfastError('device.exception', error.message, { values: { ...request, code } });
}

interface ModbusError extends Error {
  readonly modbusCode?: number;
}

type ReadCallback = (error: ModbusError | null, answer?: { readonly buffer: Buffer }) => void;

/** What is used of modbus-serial's core. Its own types leave out the table, which must be cleared or it grows for ever. */
type Core = Record<
  `writeFC${ReadFunction}`,
  (unit: number, address: number, quantity: number, done: ReadCallback) => void
> & {
  readonly _transactions: Record<number, unknown>;
};

function coreOver(port: MbapPort): Core {
  const core = new modbusSerial.default(port);
  core.open();
  return core as unknown as Core;
}
