import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Endpoint } from '../../src/readers/modbus/endpoint.js';

/** What comes back for a request: pieces that are sent one after the other. */
export type RtuBehaviour = (request: Buffer, n: number) => readonly (Buffer | number)[];

/**
 * A device on RTU over TCP, written byte by byte here so that it shares no code with the reader. Every register holds its own
 * address. It answers strictly in order, as a serial device does; a number in an answer is a pause in milliseconds.
 */
export class FakeRtu {
  readonly requests: Buffer[] = [];
  readonly registers = new Map<number, number>();
  /** What a register holds that nobody wrote. */
  held = (address: number): number => address;
  connections = 0;
  behave: RtuBehaviour;
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private lastAnswer: Promise<void> = Promise.resolve();

  private constructor(behave?: RtuBehaviour) {
    this.behave = behave ?? ((request) => [this.answer(request)]);
  }

  static async listen(t: TestContext, behave?: RtuBehaviour): Promise<FakeRtu> {
    const device = new FakeRtu(behave);
    const server = createServer({ noDelay: true }, (socket) => device.onConnection(socket));
    device.server = server;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => device.close());
    return device;
  }

  /** Refuses from now on. */
  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server?.close();
  }

  get endpoint(): Endpoint {
    const { port } = (this.server as Server).address() as AddressInfo;
    return { kind: 'tcp', framing: 'rtu', host: '127.0.0.1', port, baudRate: null };
  }

  /** The honest answer. */
  answer(request: Buffer): Buffer {
    const fc = request[1] as number;
    const address = request.readUInt16BE(2);
    const quantity = request.readUInt16BE(4);
    const value = (at: number) => this.registers.get(at) ?? this.held(at);
    switch (fc) {
      case 1:
      case 2: {
        const data = Buffer.alloc(Math.ceil(quantity / 8));
        for (let i = 0; i < quantity; i++)
          if (value(address + i) & 1) data[i >>> 3] = (data[i >>> 3] as number) | (1 << (i & 7));
        return rtu([request[0] as number, fc, data.length, ...data]);
      }
      case 3:
      case 4: {
        const words = Array.from({ length: quantity }, (_, i) => value(address + i) & 0xffff);
        return rtu([request[0] as number, fc, quantity * 2, ...words.flatMap((word) => [word >>> 8, word & 0xff])]);
      }
      case 5:
        this.registers.set(address, quantity === 0xff00 ? 1 : 0);
        return request;
      case 6:
        this.registers.set(address, quantity);
        return request;
      case 15:
        for (let i = 0; i < quantity; i++)
          this.registers.set(address + i, ((request[7 + (i >>> 3)] as number) >>> (i & 7)) & 1);
        return rtu([...request.subarray(0, 6)]);
      case 16:
        for (let i = 0; i < quantity; i++) this.registers.set(address + i, request.readUInt16BE(7 + i * 2));
        return rtu([...request.subarray(0, 6)]);
      case 22:
        this.registers.set(address, (value(address) & quantity) | (request.readUInt16BE(6) & ~quantity & 0xffff));
        return request;
      case 23: {
        const to = request.readUInt16BE(6);
        for (let i = 0; i < request.readUInt16BE(8); i++) this.registers.set(to + i, request.readUInt16BE(11 + i * 2));
        const read = rtu([request[0] as number, 3, ...request.subarray(2, 6)]);
        const { length } = read;
        return rtu([request[0] as number, 23, ...this.answer(read.subarray(0, length)).subarray(2, -2)]);
      }
      default:
        return rtu([request[0] as number, fc | 0x80, 1]);
    }
  }

  private onConnection(socket: Socket): void {
    this.connections++;
    this.sockets.add(socket);
    socket.on('error', () => {});
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      for (let length = requestLength(received); received.length >= length; length = requestLength(received)) {
        const request = Buffer.from(received.subarray(0, length));
        received = received.subarray(length);
        this.requests.push(request);
        const pieces = this.behave(request, this.requests.length);
        this.lastAnswer = this.lastAnswer.then(async () => {
          for (const piece of pieces)
            if (typeof piece === 'number') await sleep(piece);
            else socket.write(piece);
        });
      }
    });
  }
}

/** A frame with its CRC, computed bit by bit. */
export function rtu(bytes: readonly number[]): Buffer {
  let crc = 0xffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xa001 : crc >>> 1;
  }
  return Buffer.from([...bytes, crc & 0xff, crc >>> 8]);
}

function requestLength(bytes: Buffer): number {
  if (bytes[1] === 17) return 4;
  if (bytes[1] === 43) return 7;
  if (bytes.length < 8) return 8;
  switch (bytes[1]) {
    case 15:
    case 16:
      return 9 + (bytes[6] as number);
    case 22:
      return 10;
    case 23:
      return bytes.length < 11 ? 11 : 13 + (bytes[10] as number);
    default:
      return 8;
  }
}
