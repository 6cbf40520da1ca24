import { assert, assertNever } from '../../lib/assert.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import { BITS_PER_READ_MAX, REGISTERS_PER_READ_MAX } from '../../model/modbus.js';
import { deadline } from '../deadline.js';
import { type Core, coreOver, type ModbusError } from './core.js';
import { withCrc } from './crc16.js';
import { type LineOptions, openLine } from './line.js';
import { MbapPort } from './mbap-port.js';
import type { Port } from './port.js';
import { dataBytesOf, REGISTERS_PER_WRITE_MAX, type ReadRequest, type WriteRequest } from './requests.js';
import { RtuPort } from './rtu-port.js';

export interface ClientOptions extends LineOptions {
  readonly acceptAnyUnit?: boolean;
  readonly localEcho?: boolean;
}

export interface ClientEvents {
  /** The connection has ended, for whatever reason; called once. */
  onDown(reason: HoldfastError): void;
  /** An answer came after its request had timed out, and was dropped. */
  onLate(unit: number): void;
}

/**
 * Asks over one connection. Every request settles, within its timeout plus two turns of the event loop, or at once when the
 * connection ends. The unit goes with each call, so calls cannot get into each other's way.
 *
 * All of them throw `device.exception` (`values.code` is the Modbus exception code), `device.timeout`, `device.protocol`
 * when the answer does not fit the question, `device.link` when the connection ended or is not there.
 */
export class ModbusClient {
  private readonly port: Port;
  private readonly core: Core;
  private readonly pending = new Map<number, Pending>();

  private constructor(port: Port, events: ClientEvents) {
    this.port = port;
    this.core = coreOver(port);
    port.on('late', (unit: number) => events.onLate(unit));
    port.on('answer', (slot: number, answer: Buffer) => this.pending.get(slot)?.take(answer));
    port.once('down', (reason: HoldfastError) => {
      for (const { fail } of [...this.pending.values()]) fail(reason);
      events.onDown(reason);
    });
  }

  static async connect(options: ClientOptions, events: ClientEvents): Promise<ModbusClient> {
    const line = await openLine(options);
    const { endpoint, acceptAnyUnit = false, localEcho = false } = options;
    const port = endpoint.framing === 'mbap' ? new MbapPort(line, acceptAnyUnit) : new RtuPort(line, localEcho);
    return new ModbusClient(port, events);
  }

  /** The data bytes of the answer as they came: registers high byte first, bits packed from the low bit up. */
  read(request: ReadRequest, timeoutMs: number): Promise<Buffer> {
    const { fc, unit, address, quantity } = request;
    const max = fc <= 2 ? BITS_PER_READ_MAX : REGISTERS_PER_READ_MAX;
    assert(quantity >= 1 && quantity <= max && address >= 0 && address + quantity <= 0x10000, 'read within limits', {
      ...request,
    });
    const bytes = dataBytesOf(request);
    const send = () => this.core[`writeFC${fc}`](unit, address, quantity, () => {});
    // The core would make a list of numbers of it first, and pad bits, and not look whether they are as many as asked for.
    return this.ask(request, timeoutMs, send, (answer, done) => {
      const data = answerData(answer, unit, fc, done);
      if (data) done(null, data[0] === bytes && data.length === 1 + bytes ? data.subarray(1) : undefined);
    });
  }

  /**
   * Resolves when the device has confirmed exactly this write, for FC23 with the registers it then read. After
   * `device.timeout`, `device.protocol` or `device.link` nobody knows whether it was carried out.
   */
  write(request: WriteRequest, timeoutMs: number): Promise<Buffer> {
    return this.ask(request, timeoutMs, (done) => this.sendWrite(request, done));
  }

  /**
   * The bytes of the answer behind its function code, for functions of identification (17 and 43): the core's own do not
   * end when a device always promises more, and throw where nobody can catch.
   */
  identify(unit: number, pdu: Uint8Array, timeoutMs: number): Promise<Buffer> {
    const fc = pdu[0] as number;
    const send = () => this.port.write(withCrc(Buffer.from([unit, ...pdu])));
    return this.ask({ fc, unit }, timeoutMs, send, (answer, done) => {
      const data = answerData(answer, unit, fc, done);
      if (data) done(null, data);
    });
  }

  /** Rejects what is pending with `device.link`; never waits for the peer. */
  close(reason = new HoldfastError('device.link', 'The reader closed the connection')): void {
    this.port.end(reason);
  }

  /** Without `take` the core reads the answer. */
  private ask(
    values: object,
    timeoutMs: number,
    send: (done: Done) => void,
    take?: (answer: Buffer, done: Done) => void,
  ): Promise<Buffer> {
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
      const done: Done = (error, answer) => {
        if (error) fail(asDeviceError(error, values));
        else if (answer) {
          settle();
          resolve(answer);
        } else
          fail(
            new HoldfastError('device.protocol', 'The answer is not one to what was asked', { values: { ...values } }),
          );
      };
      const cancel = deadline(timeoutMs, () => {
        const details = { values: { ...values, timeoutMs } };
        if (this.port.isInsideFrame)
          this.port.end(new HoldfastError('device.protocol', 'The device sent half an answer', details));
        else fail(new HoldfastError('device.timeout', `No answer within ${Math.round(timeoutMs)} ms`, details));
      });
      const taken = take
        ? (answer: Buffer) => take(answer, done)
        : (answer: Buffer) => this.port.passToCore(slot, answer);
      this.pending.set(slot, { fail, take: taken });
      send(done);
    });
  }

  private sendWrite(request: WriteRequest, done: Done): void {
    const { unit, address } = request;
    const confirmed = (is: boolean | undefined) => (is ? Buffer.alloc(0) : undefined);
    switch (request.fc) {
      case 5:
        this.core.writeFC5(unit, address, request.on, (error, answer) =>
          done(error, confirmed(answer?.address === address && answer.state === request.on)),
        );
        return;
      case 6:
        this.core.writeFC6(unit, address, request.value, (error, answer) =>
          done(error, confirmed(answer?.address === address && answer.value === request.value)),
        );
        return;
      case 15:
        this.core.writeFC15(unit, address, request.bits, (error, answer) =>
          done(error, confirmed(answer?.address === address && answer.length === request.bits.length)),
        );
        return;
      case 16:
        assert(request.registers.length <= REGISTERS_PER_WRITE_MAX * 2, 'write within limits', { address });
        this.core.writeFC16(unit, address, request.registers, (error, answer) =>
          done(error, confirmed(answer?.address === address && answer.length === request.registers.length / 2)),
        );
        return;
      case 22: {
        const { and, or } = request;
        this.core.writeFC22(unit, address, and, or, (error, answer) =>
          done(error, confirmed(answer?.address === address && answer.andMask === and && answer.orMask === or)),
        );
        return;
      }
      case 23: {
        const { registers } = request;
        const quantity = registers.length / 2;
        assert(quantity <= REGISTERS_PER_WRITE_MAX, 'write within limits', { address });
        this.core.writeFC23(unit, address, quantity, address, quantity, registers, (error, answer) =>
          done(error, answer && bytesOf(answer.data as readonly number[])),
        );
        return;
      }
      default:
        assertNever(request, 'write');
    }
  }
}

type Done = (error: ModbusError | null, answer?: Buffer) => void;

interface Pending {
  fail(error: HoldfastError): void;
  /** Unit and PDU, as they came. */
  take(answer: Buffer): void;
}

/** What is behind the function code; undefined when it is an exception or no answer to this, which `done` is then told. */
function answerData(answer: Buffer, unit: number, fc: number, done: Done): Buffer | undefined {
  if (answer[0] === unit && answer[1] === fc) return answer.subarray(2);
  const isException = answer[0] === unit && answer[1] === (fc | 0x80) && answer.length === EXCEPTION_BYTES;
  if (isException) done(exception(answer[2] as number));
  else done(null);
  return undefined;
}

/** Unit, function and code. */
const EXCEPTION_BYTES = 3;

function asDeviceError(error: ModbusError, request: object): HoldfastError {
  const { modbusCode: code } = error;
  if (code === undefined)
    return new HoldfastError('device.protocol', `The answer does not fit: ${messageOf(error)}`, {
      values: { ...request },
      cause: error,
    });
  return new HoldfastError('device.exception', error.message, { values: { ...request, code } });
}

function exception(code: number): ModbusError {
  return Object.assign(new Error(`Modbus exception ${code}`), { modbusCode: code });
}

function bytesOf(registers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(registers.length * 2);
  for (const [i, value] of registers.entries()) bytes.writeUInt16BE(value, i * 2);
  return bytes;
}
