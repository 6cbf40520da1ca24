/**
 * A raw MQTT 3.1.1 publisher, as fast as one process can be: packets are made once and patched, acknowledgements are counted
 * by their bytes. Run by the benchmark in a process of its own: PORT CLIENTS WINDOW SECONDS PAYLOAD_BYTES [MESSAGES].
 */
import { connect, type Socket } from 'node:net';

const [port, clients, window, seconds, payloadBytes, messages] = process.argv.slice(2).map(Number) as [
  number,
  number,
  number,
  number,
  number,
  number | undefined,
];
const limit = messages ?? Number.POSITIVE_INFINITY;
const startedAt = performance.now();
const endAt = startedAt + seconds * 1000;
const latencies: number[] = [];
let sent = 0;
let acked = 0;
let finish: () => void = () => {};
/** The clients that were not the last to hear an acknowledgement wait for nothing more. */
const finished = new Promise<void>((resolve) => {
  finish = resolve;
});

function publishPacket(client: number): Buffer {
  const topic = Buffer.from(`plant/line1/press${client}/temperature_zone1`);
  const remaining = 2 + topic.length + 2 + payloadBytes;
  const length: number[] = [];
  for (let n = remaining; ; ) {
    length.push((n % 128) | (n > 127 ? 128 : 0));
    n = Math.floor(n / 128);
    if (n === 0) break;
  }
  const head = Buffer.from([0x32, ...length, topic.length >> 8, topic.length & 255]);
  return Buffer.concat([head, topic, Buffer.alloc(2), Buffer.alloc(payloadBytes, 120)]);
}

function run(client: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const packet = publishPacket(client);
    const idAt = packet.length - payloadBytes - 2;
    const sentAt = new Map<number, number>();
    let id = 0;
    let rest = Buffer.alloc(0);
    let ready = false;
    const more = (count: number) => {
      const now = performance.now();
      const packets: Buffer[] = [];
      for (let i = 0; i < count && now < endAt && sent < limit; i++) {
        id = (id % 65_535) + 1;
        const copy = Buffer.from(packet);
        copy.writeUInt16BE(id, idAt);
        packets.push(copy);
        sent++;
        if (id % 64 === 0 || window === 1) sentAt.set(id, now);
      }
      if (packets.length > 0) socket.write(Buffer.concat(packets));
    };
    socket.on('connect', () => {
      const name = Buffer.from(`bench-${client}`);
      socket.write(
        Buffer.concat([
          Buffer.from([0x10, 12 + name.length, 0, 4]),
          Buffer.from('MQTT'),
          Buffer.from([4, 2, 0, 0, 0, name.length]),
          name,
        ]),
      );
    });
    socket.on('data', (chunk) => {
      rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      const now = performance.now();
      let at = 0;
      let got = 0;
      for (; rest.length - at >= 4; at += 4) {
        if (!ready) {
          ready = true;
          more(window);
          continue;
        }
        got++;
        const since = sentAt.get(rest.readUInt16BE(at + 2));
        if (since !== undefined) {
          latencies.push(now - since);
          sentAt.delete(rest.readUInt16BE(at + 2));
        }
      }
      rest = rest.subarray(at);
      acked += got;
      if (acked >= limit) finish();
      if (now >= endAt || acked >= limit) {
        socket.destroy();
        resolve();
      } else if (got > 0) more(got);
    });
    socket.on('error', reject);
    socket.on('close', () => resolve());
  });
}

await Promise.race([
  finished,
  Promise.all(Array.from({ length: clients }, (_, client) => run(client))),
  new Promise((resolve) => setTimeout(resolve, seconds * 1000 + 2_000)),
]);
const elapsed = (performance.now() - startedAt) / 1000;
latencies.sort((a, b) => a - b);
const quantile = (q: number) => latencies[Math.floor(latencies.length * q)] ?? null;
console.log(
  JSON.stringify({ acked, perSecond: Math.round(acked / elapsed), p50Ms: quantile(0.5), p99Ms: quantile(0.99) }),
);
process.exit(0);
