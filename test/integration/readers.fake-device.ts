import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

export interface Question {
  readonly tid: number;
  readonly unit: number;
  readonly fc: number;
  readonly address: number;
  readonly quantity: number;
  /** 1 for the first question since the device was made. */
  readonly n: number;
  readonly socket: Socket;
}

export type Behaviour = (question: Question, device: FakeDevice) => void;

/** Every register holds its own address, every coil is set where its address is odd: a wrong offset cannot go unnoticed. */
export const honest: Behaviour = (question) => void question.socket.write(answerTo(question));

/** A Modbus TCP device on a raw socket that does as it is told, and counts who connects. */
export class FakeDevice {
  behave: Behaviour;
  questions: Question[] = [];
  connections = 0;
  socketsMost = 0;
  readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private listenedPort = 0;

  private constructor(behave: Behaviour) {
    this.behave = behave;
  }

  static async listen(behave: Behaviour = honest): Promise<FakeDevice> {
    const device = new FakeDevice(behave);
    await device.powerOn();
    return device;
  }

  get port(): number {
    return this.listenedPort;
  }

  /** Listens, on the same port as before. */
  async powerOn(): Promise<void> {
    const server = createServer({ noDelay: true }, (socket) => this.onConnection(socket));
    this.server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.listenedPort, '127.0.0.1', resolve);
    });
    this.listenedPort = (server.address() as AddressInfo).port;
  }

  /** Refuses from now on and ends its connections, by RST or by FIN. */
  async powerOff(how: 'rst' | 'fin' = 'rst'): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server?.close(() => resolve()));
    this.hangUp(how);
    await closed;
  }

  hangUp(how: 'rst' | 'fin' = 'rst'): void {
    for (const socket of this.sockets) {
      if (how === 'rst') socket.resetAndDestroy();
      else socket.end();
    }
  }

  async close(): Promise<void> {
    if (this.server?.listening) await this.powerOff();
  }

  private onConnection(socket: Socket): void {
    this.connections++;
    this.sockets.add(socket);
    this.socketsMost = Math.max(this.socketsMost, this.sockets.size);
    socket.on('error', () => {});
    socket.on('close', () => this.sockets.delete(socket));
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      for (; received.length >= 12; received = received.subarray(12)) {
        const question: Question = {
          tid: received.readUInt16BE(0),
          unit: received.readUInt8(6),
          fc: received.readUInt8(7),
          address: received.readUInt16BE(8),
          quantity: received.readUInt16BE(10),
          n: this.questions.length + 1,
          socket,
        };
        this.questions.push(question);
        this.behave(question, this);
      }
    });
  }
}

export function frame(tid: number, unit: number, pdu: Uint8Array): Buffer {
  const header = Buffer.alloc(7);
  header.writeUInt16BE(tid, 0);
  header.writeUInt16BE(pdu.length + 1, 4);
  header.writeUInt8(unit, 6);
  return Buffer.concat([header, pdu]);
}

export function answerTo({ tid, unit, fc, address, quantity }: Question, valueAt = (a: number) => a): Buffer {
  const data = Buffer.alloc(fc <= 2 ? Math.ceil(quantity / 8) : quantity * 2);
  for (let i = 0; i < quantity; i++) {
    const value = valueAt(address + i);
    if (fc > 2) data.writeUInt16BE(value & 0xffff, i * 2);
    else if (value & 1) data[i >>> 3] = (data[i >>> 3] as number) | (1 << (i & 7));
  }
  return frame(tid, unit, Buffer.concat([Buffer.from([fc, data.length]), data]));
}

export function exceptionTo({ tid, unit, fc }: Question, code: number): Buffer {
  return frame(tid, unit, Buffer.from([fc | 0x80, code]));
}
