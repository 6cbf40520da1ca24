/**
 * A process of its own that serves as many Modbus TCP ports as it is told, as fast as it can: holding registers that change
 * every second, in every unit but one. Prints its ports as JSON.
 */
import { type AddressInfo, createServer } from 'node:net';

const REGISTERS = 65_536;
const REQUEST_BYTES = 12;
/** Takes requests and never answers. */
const DEAD_UNIT = 99;
const links = Number(process.argv[2]);

/** Two images of all registers as floats, taken in turns: each second about half of the values change. */
const images = [0, 1].map((turn) => {
  const bytes = Buffer.alloc((REGISTERS + 125) * 2);
  for (let i = 0; i < REGISTERS; i += 2) bytes.writeFloatBE(20 + (i % 4 === 0 ? turn : 0) + i / 1000, i * 2);
  return bytes;
});

const ports = await Promise.all(
  Array.from({ length: links }, async () => {
    const server = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => {});
      socket.on('data', (chunk): unknown => {
        for (let at = 0; at + REQUEST_BYTES <= chunk.length; at += REQUEST_BYTES) {
          if (chunk[at + 6] === DEAD_UNIT) continue;
          if (chunk[at + 7] !== 3) return socket.destroy();
          const address = chunk.readUInt16BE(at + 8);
          const bytes = chunk.readUInt16BE(at + 10) * 2;
          const answer = Buffer.allocUnsafe(9 + bytes);
          chunk.copy(answer, 0, at, at + 8);
          answer.writeUInt16BE(3 + bytes, 4);
          answer[8] = bytes;
          const image = images[Math.floor(Date.now() / 1000) % 2] as Buffer;
          image.copy(answer, 9, address * 2, address * 2 + bytes);
          socket.write(answer);
        }
        return undefined;
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  }),
);
process.stdout.write(`${JSON.stringify(ports)}\n`);
