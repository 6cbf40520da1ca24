/**
 * `npm run bench:modbus`: what reading costs on this machine.
 *
 * 1. Ten links with ten groups of 1000 floats each, every second: 100 000 tags a second read, decoded and compared with what
 *    was reported last. The devices are in another process, so the CPU shown is the reader's alone; beside it, what the same
 *    requests cost over bare sockets that look at nothing, because most of it is the system's and depends on the machine.
 * 2. How many reads of 125 registers one link does in a second, beside libmodbus' own client and pymodbus where they are
 *    installed, all in turns on the same server.
 * 3. How many of their cycles the healthy units on a link keep while another unit on it is dead.
 *
 *     npm run bench:modbus -- [--seconds 10] [--rounds 3] [--json FILE]
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { GOOD } from '../../src/model/reading.js';
import { ChangeFilter } from '../../src/readers/change-filter.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import type { Endpoint } from '../../src/readers/modbus/endpoint.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';

const LINKS = 10;
const GROUPS = 10;
const TAGS_PER_GROUP = 1000;
const WARM_UP_MS = 3000;
const READS = 10_000;
const HEALTHY_UNITS = 8;
const DEAD_UNIT = 99;
const REGISTERS_PER_READ = 125;
const LIBMODBUS_EXAMPLES = '/usr/share/doc/libmodbus-dev/examples';

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'string' },
  },
});

const tcp = (port: number): Endpoint => ({ kind: 'tcp', framing: 'mbap', host: '127.0.0.1', port });
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

async function serve(links: number): Promise<{ child: ChildProcess; ports: number[] }> {
  const child = spawn(process.execPath, [new URL('./modbus-server.js', import.meta.url).pathname, String(links)]);
  const ports = await new Promise<number[]>((resolve) =>
    child.stdout.once('data', (line) => resolve(JSON.parse(String(line)) as number[])),
  );
  return { child, ports };
}

async function manyTags(seconds: number) {
  const { child, ports } = await serve(LINKS);
  const floats = Array.from({ length: TAGS_PER_GROUP }, (_, i) => `t${i}`);
  const groups = Array.from({ length: GROUPS }, (_, g) => ({
    everyMs: 1000,
    tags: floats.map((name, i) => ({
      name: `${name}-${g}`,
      at: `hr:${(g * TAGS_PER_GROUP + i) * 2}`,
      type: 'f32' as const,
    })),
  }));
  const rule = { deadband: 0, heartbeatMs: 3_600_000 };
  const rules = new Map(groups.flatMap(({ tags }) => tags.map(({ name }) => [name, rule] as const)));
  let read = 0;
  let reported = 0;
  const drivers = ports.map((port, link) => {
    const asset = `plc-${link}`;
    const filter = new ChangeFilter(new Map([[asset, rules]]), systemClock);
    return new ModbusDriver(
      {
        endpoint: tcp(port),
        connectTimeoutMs: 5000,
        timeoutMs: 1000,
        retries: 1,
        minGapMs: 0,
        backoff: { minMs: 100, maxMs: 1000 },
        devices: [{ asset, unit: 1, order: 'ABCD', addressing: 'pdu0', groups }],
      },
      {
        emit: async (batch) => {
          read += batch.samples.length;
          reported += filter.pass(batch)?.samples.length ?? 0;
        },
        status: () => {},
        clock: systemClock,
        log: silentLog,
        signal: new AbortController().signal,
      },
    );
  });
  for (const driver of drivers) driver.start();
  await sleep(WARM_UP_MS);
  [read, reported] = [0, 0];
  const [cpu, startMono] = [process.cpuUsage(), performance.now()];
  await sleep(seconds * 1000);
  const { user, system } = process.cpuUsage(cpu);
  const elapsedS = (performance.now() - startMono) / 1000;
  const missed = drivers.flatMap((driver) => driver.status().devices).reduce((sum, each) => sum + each.missedCycles, 0);
  const result = {
    tagsPerSecond: Math.round(read / elapsedS),
    changesPerSecond: Math.round(reported / elapsedS),
    cpuPercentOfOneCore: Math.round((user + system) / elapsedS / 100) / 100,
    missedCycles: missed,
    rssMiB: Math.round(process.memoryUsage.rss() / 2 ** 20),
  };
  await Promise.all(drivers.map((driver) => driver.stop()));
  child.kill();
  return result;
}

/** The same requests on the same sockets at the same pace, and nothing done with the answers: what the system alone costs. */
async function bareSockets(seconds: number): Promise<number> {
  const { child, ports } = await serve(LINKS);
  const readsPerGroup = Math.ceil((TAGS_PER_GROUP * 2) / REGISTERS_PER_READ);
  const request = Buffer.from([0, 1, 0, 0, 0, 6, 1, 3, 0, 0, 0, REGISTERS_PER_READ]);
  const answerBytes = 9 + REGISTERS_PER_READ * 2;
  const sockets = [];
  for (const port of ports) {
    // Spread over the time between two cycles, as the reader's groups are.
    await sleep(1000 / GROUPS / LINKS);
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    let received = 0;
    let left = 0;
    socket.on('data', (chunk) => {
      received += chunk.length;
      if (received < answerBytes) return;
      received = 0;
      if (--left > 0) socket.write(request);
    });
    const cycle = () => {
      left = readsPerGroup;
      socket.write(request);
    };
    sockets.push({ socket, timer: setInterval(cycle, 1000 / GROUPS) });
  }
  await sleep(WARM_UP_MS);
  const [cpu, startMono] = [process.cpuUsage(), performance.now()];
  await sleep(seconds * 1000);
  const { user, system } = process.cpuUsage(cpu);
  const elapsedS = (performance.now() - startMono) / 1000;
  for (const { socket, timer } of sockets) {
    clearInterval(timer);
    socket.destroy();
  }
  child.kill();
  return Math.round((user + system) / elapsedS / 100) / 100;
}

/** Healthy units beside one that never answers: how many of the cycles that were due they had. */
async function besideDeadUnit(port: number, seconds: number) {
  const tags = Array.from({ length: 100 }, (_, i) => ({ name: `t${i}`, at: `hr:${i * 2}`, type: 'f32' as const }));
  const units = [...Array.from({ length: HEALTHY_UNITS }, (_, i) => i + 1), DEAD_UNIT];
  const cycles = new Map<string, number>();
  const driver = new ModbusDriver(
    {
      endpoint: tcp(port),
      connectTimeoutMs: 5000,
      timeoutMs: 300,
      retries: 1,
      minGapMs: 0,
      backoff: { minMs: 1000, maxMs: 30_000 },
      devices: units.map((unit) => ({
        asset: `unit-${unit}`,
        unit,
        order: 'ABCD',
        addressing: 'pdu0',
        groups: [{ everyMs: 1000, tags }],
      })),
    },
    {
      // Two reads a cycle, of which the last one counts.
      emit: async ({ device, samples }) => {
        if (samples.some(({ tag, quality }) => tag === 't99' && quality === GOOD))
          cycles.set(device, (cycles.get(device) ?? 0) + 1);
      },
      status: () => {},
      clock: systemClock,
      log: silentLog,
      signal: new AbortController().signal,
    },
  );
  driver.start();
  await sleep(seconds * 1000);
  const healthy = driver.status().devices.filter(({ device }) => device !== `unit-${DEAD_UNIT}`);
  const dead = driver.status().devices.find(({ device }) => device === `unit-${DEAD_UNIT}`);
  const had = healthy.reduce((sum, { device }) => sum + (cycles.get(device) ?? 0), 0);
  const missed = healthy.reduce((sum, { missedCycles }) => sum + missedCycles, 0);
  const result = { cycles: had, missed, sharePercent: (100 * had) / (had + missed), deadUnit: dead?.state };
  await driver.stop();
  return result;
}

async function ours(port: number): Promise<number> {
  const client = await ModbusClient.connect(
    { endpoint: tcp(port), connectTimeoutMs: 5000, signal: new AbortController().signal },
    { onDown: () => {}, onLate: () => {} },
  );
  const startMono = performance.now();
  for (let i = 0; i < READS; i++) await client.read({ fc: 3, unit: 1, address: 0, quantity: REGISTERS_PER_READ }, 1000);
  const perSecond = (READS * 1000) / (performance.now() - startMono);
  client.close();
  return perSecond;
}

function pymodbus(port: number): number | undefined {
  const script = `
import sys, time
from pymodbus.client import ModbusTcpClient
client = ModbusTcpClient("127.0.0.1", port=${port})
client.connect()
start = time.perf_counter()
for _ in range(${READS / 5}):
    assert len(client.read_holding_registers(0, ${REGISTERS_PER_READ}, 1).registers) == ${REGISTERS_PER_READ}
print(${READS / 5} / (time.perf_counter() - start))
`;
  try {
    return Number(execFileSync('/usr/bin/python3', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'] }));
  } catch {
    return undefined;
  }
}

/** libmodbus' own client for this purpose. It reads bits first, which the server answers as registers. */
function libmodbus(dir: string, port: number): number | undefined {
  try {
    const source = readFileSync(join(LIBMODBUS_EXAMPLES, 'bandwidth-client.c'), 'utf8')
      .replaceAll('1502', String(port))
      .replaceAll('100000', String(READS))
      .replaceAll('modbus_read_bits(ctx, 0, nb_points, tab_bit)', 'modbus_read_registers(ctx, 0, 1, tab_reg)');
    writeFileSync(join(dir, 'client.c'), source);
    const flags = execFileSync('pkg-config', ['--cflags', '--libs', 'libmodbus']).toString().trim().split(/\s+/);
    execFileSync('gcc', ['-O2', '-w', '-o', join(dir, 'client'), join(dir, 'client.c'), ...flags]);
  } catch {
    return undefined;
  }
  let printed = '';
  try {
    printed = execFileSync(join(dir, 'client'), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch (error) {
    // It goes on to write and read in one, which this server does not know.
    printed = String((error as { stdout?: string }).stdout ?? '');
  }
  const elapsedMs = /READ REGISTERS[\s\S]*?\* ([\d.]+) ms/.exec(printed)?.[1];
  return elapsedMs === undefined ? undefined : (READS * 1000) / Number(elapsedMs);
}

const bareCpuPercent = await bareSockets(Number(flags.seconds));
const many = { ...(await manyTags(Number(flags.seconds))), bareSocketsCpuPercent: bareCpuPercent };
console.log(`100 000 float tags at 1 s: ${JSON.stringify(many)}`);

const { child, ports } = await serve(1);
const [port] = ports as [number];
const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
const rounds: Record<string, number[]> = { holdfast: [], pymodbus: [], libmodbus: [] };
for (let round = 0; round < Number(flags.rounds); round++) {
  rounds.holdfast?.push(await ours(port));
  for (const [name, rate] of [
    ['pymodbus', pymodbus(port)],
    ['libmodbus', libmodbus(dir, port)],
  ] as const)
    if (rate !== undefined) rounds[name]?.push(rate);
}
const besideDead = await besideDeadUnit(port, Number(flags.seconds));
child.kill();
rmSync(dir, { recursive: true, force: true });
const readsPerSecond = Object.fromEntries(
  Object.entries(rounds)
    .filter(([, rates]) => rates.length > 0)
    .map(([name, rates]) => [name, Math.round(median(rates))]),
);
console.log(`reads of ${REGISTERS_PER_READ} registers in a second, one at a time: ${JSON.stringify(readsPerSecond)}`);
console.log(`${HEALTHY_UNITS} units at 1 s beside a dead one: ${JSON.stringify(besideDead)}`);
if (flags.json) writeFileSync(flags.json, `${JSON.stringify({ many, readsPerSecond, besideDead }, null, 2)}\n`);
process.exit(0);
