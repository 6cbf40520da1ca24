/**
 * What the plant notices when the cloud is gone: how long a message takes from one local client to another, on an idle
 * gateway, and with the line to the cloud swallowing everything, a long backlog and two subscribers that have frozen.
 */
import { execFile, execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import mqtt, { type Packet } from 'mqtt-packet';
import { holdfast, holdfastWith, type Running, rssMiB } from './peers.js';

const PROBE = new URL('./probe.js', import.meta.url).pathname;
const PUBLISHER = new URL('./publisher.js', import.meta.url).pathname;
const SLOW_SYNC = resolve('test/bench/native/slow-sync.c');
const PER_SECOND = 200;
const FILL_CLIENTS = 8;
const FILL_WINDOW = 200;
const FILL_SECONDS_MAX = 600;
const FILL_PAYLOAD_BYTES = 100;
const run = promisify(execFile);

export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface IsolationResult {
  readonly syncMs: number;
  readonly rows: number;
  readonly idle: Latency;
  readonly loaded: Latency;
  readonly ratio: number;
  readonly idleMiB: number;
  readonly filledMiB: number;
  readonly loadedMiB: number;
}

export interface IsolationOptions {
  readonly dir: string;
  readonly rows: number;
  readonly seconds: number;
  readonly rounds: number;
  /** Added to each flush of the gateway. */
  readonly syncMs: number;
  readonly note: (text: string) => void;
}

export async function isolation(options: IsolationOptions): Promise<IsolationResult> {
  const { dir, rows, seconds, rounds, syncMs, note } = options;
  const port = (ready: Record<string, unknown>) => ready.port as number;
  const cloud = await holdfast(port, 'simulate', 'cloud', '--port', '0');
  const wan = await holdfast(port, 'simulate', 'wan', '--port', '0', '--to', `127.0.0.1:${cloud.port}`);
  const gateway = await openGateway(dir, wan.port, syncMs);
  const frozen: Socket[] = [];
  try {
    note(`isolation, flushes ${syncMs} ms slower: idle`);
    const idle = await probe(gateway.port, seconds, rounds);
    const idleMiB = rssMiB(gateway.pid);
    await wan.ask({ set: { cut: 'blackhole' } });
    frozen.push(await freeze(gateway.port, true), await freeze(gateway.port, false));
    note(`isolation: ${rows} rows that the cloud does not take`);
    const args = [gateway.port, FILL_CLIENTS, FILL_WINDOW, FILL_SECONDS_MAX, FILL_PAYLOAD_BYTES, rows].map(String);
    const { acked } = JSON.parse(execFileSync(process.execPath, [PUBLISHER, ...args], { encoding: 'utf8' }));
    const filledMiB = rssMiB(gateway.pid);
    note('isolation: with the backlog and the frozen subscribers');
    const loaded = await probe(gateway.port, seconds, rounds);
    const ratio = loaded.p99Ms / idle.p99Ms;
    return { syncMs, rows: acked, idle, loaded, ratio, idleMiB, filledMiB, loadedMiB: rssMiB(gateway.pid) };
  } finally {
    for (const socket of frozen) socket.destroy();
    for (const running of [gateway, wan, cloud]) await running.stop();
  }
}

/** The medians of several runs: a neighbour on this machine spoils one of them, not all. */
async function probe(port: number, seconds: number, rounds: number): Promise<Latency> {
  const runs: Latency[] = [];
  for (let round = 0; round < rounds; round++) {
    const { stdout } = await run(process.execPath, [PROBE, port, seconds, PER_SECOND].map(String));
    runs.push(JSON.parse(stdout));
  }
  const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] as number;
  return { p50Ms: median(runs.map(({ p50Ms }) => p50Ms)), p99Ms: median(runs.map(({ p99Ms }) => p99Ms)) };
}

function openGateway(dir: string, cloudPort: number, syncMs: number): Promise<Running> {
  const config = join(dir, 'gateway.yaml');
  const settings = {
    gateway: { id: 'bench', dataDir: join(dir, 'data') },
    log: { level: 'error' },
    broker: { listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: true }] },
    spool: { bytesMax: '16GiB' },
    upstream: { url: `mqtt://127.0.0.1:${cloudPort}`, onNoSubscribers: 'accept' },
  };
  writeFileSync(config, JSON.stringify(settings));
  const env: Record<string, string> = {};
  if (syncMs > 0) {
    env.LD_PRELOAD = join(dir, 'slow-sync.so');
    env.SLOW_SYNC_MS = String(syncMs);
    execFileSync('gcc', ['-O2', '-shared', '-fPIC', '-o', env.LD_PRELOAD, SLOW_SYNC, '-ldl']);
  }
  const portOf = ({ mqtt }: Record<string, unknown>) => Number(new URL((mqtt as string[])[0] as string).port);
  return holdfastWith(env, portOf, 'gateway', '--config', config);
}

/** A client that subscribes to everything and then reads nothing more. */
async function freeze(port: number, clean: boolean): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  const parser = mqtt.parser({ protocolVersion: 4 });
  const send = (packet: object) => socket.write(mqtt.generate(packet as Packet));
  socket.on('data', (chunk) => parser.parse(chunk as Buffer));
  const clientId = `frozen-${clean ? 'clean' : 'kept'}`;
  send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId, clean, keepalive: 0 });
  send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'plant/#', qos: 1 }] });
  await new Promise<void>((resolve, reject) => {
    parser.on('packet', ({ cmd }) => cmd === 'suback' && resolve());
    socket.on('error', reject);
  });
  socket.pause();
  return socket;
}
