/**
 * How long a message takes from one client of the broker to another: QoS 1 both ways, one at a time and at a steady pace.
 * Run by the benchmark in a process of its own: PORT SECONDS PER_SECOND.
 */
import { connect, type Socket } from 'node:net';
import mqtt, { type Packet } from 'mqtt-packet';

const [port, seconds, perSecond] = process.argv.slice(2).map(Number) as [number, number, number];
const TOPIC = 'plant/probe/latency';
const ANSWER_MS = 30_000;

interface Client {
  send(packet: object): void;
  next(cmd: string): Promise<Packet>;
}

async function client(clientId: string): Promise<Client> {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const parser = mqtt.parser({ protocolVersion: 4 });
  const waiting = new Map<string, (packet: Packet) => void>();
  const come = new Map<string, Packet>();
  socket.on('data', (chunk) => parser.parse(chunk as Buffer));
  socket.on('error', fail);
  const send = (packet: object): void => void socket.write(mqtt.generate(packet as Packet));
  parser.on('packet', (packet: Packet) => {
    if (packet.cmd === 'publish') send({ cmd: 'puback', messageId: packet.messageId });
    const take = waiting.get(packet.cmd);
    waiting.delete(packet.cmd);
    if (take) take(packet);
    else come.set(packet.cmd, packet);
  });
  const next = (cmd: string): Promise<Packet> => {
    const packet = come.get(cmd);
    come.delete(cmd);
    return packet ? Promise.resolve(packet) : new Promise((resolve) => waiting.set(cmd, resolve));
  };
  send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId, clean: true, keepalive: 0 });
  await next('connack');
  return { send, next };
}

function fail(error: Error): never {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}

const subscriber = await client(`probe-in-${process.pid}`);
subscriber.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: TOPIC, qos: 1 }] });
await subscriber.next('suback');
const publisher = await client(`probe-out-${process.pid}`);
const payload = Buffer.alloc(100, 120);
const latencies: number[] = [];
const startedAt = performance.now();
for (let n = 0; n < seconds * perSecond; n++) {
  const waitMs = startedAt + (n * 1000) / perSecond - performance.now();
  if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  const late = setTimeout(() => fail(new Error(`message ${n} has not come`)), ANSWER_MS);
  const sentAt = performance.now();
  const messageId = (n % 65_535) + 1;
  publisher.send({ cmd: 'publish', topic: TOPIC, payload, qos: 1, messageId, dup: false, retain: false });
  await subscriber.next('publish');
  latencies.push(performance.now() - sentAt);
  await publisher.next('puback');
  clearTimeout(late);
}
latencies.sort((a, b) => a - b);
const quantile = (q: number): number => latencies[Math.floor((latencies.length - 1) * q)] as number;
console.log(JSON.stringify({ messages: latencies.length, p50Ms: quantile(0.5), p99Ms: quantile(0.99) }));
process.exit(0);
