import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../src/sim/free-port.js';

const MAIN = new URL('../../src/main.js', import.meta.url).pathname;

export interface Running {
  readonly port: number;
  readonly pid: number;
  ask(command: object): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export function scratch(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

function stopper(child: ChildProcess): () => Promise<void> {
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return () => {
    child.kill('SIGKILL');
    return exit;
  };
}

/** A command of this program with `--json`; the ready line tells its port. */
export function holdfast(portOf: (ready: Record<string, unknown>) => number, ...args: string[]): Promise<Running> {
  return holdfastWith({}, portOf, ...args);
}

/** The same with further variables in its environment. */
export async function holdfastWith(
  env: Readonly<Record<string, string>>,
  portOf: (ready: Record<string, unknown>) => number,
  ...args: string[]
): Promise<Running> {
  const options = {
    stdio: ['pipe', 'pipe', 'inherit'] as ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  };
  const child = spawn(process.execPath, [MAIN, ...args, '--json'], options);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value as string) as Record<string, unknown>;
  const port = portOf(await next());
  const ask = (command: object) => {
    child.stdin.write(`${JSON.stringify(command)}\n`);
    return next();
  };
  return { port, pid: child.pid as number, ask, stop: stopper(child) };
}

/** A gateway with nothing but a broker and a spool; its cloud does not answer, so everything it takes is kept. */
export function gateway(dir: string): Promise<Running> {
  const config = join(dir, 'gateway.yaml');
  writeFileSync(
    config,
    JSON.stringify({
      gateway: { id: 'bench', dataDir: join(dir, 'data') },
      log: { level: 'error' },
      broker: { listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: true }] },
      spool: { bytesMax: '16GiB' },
      upstream: { url: 'mqtt://127.0.0.1:9' },
    }),
  );
  return holdfast(({ mqtt }) => Number(new URL((mqtt as string[])[0] as string).port), 'gateway', '--config', config);
}

/** Mosquitto as it comes, which keeps nothing on disk, with more lines of config; undefined when it is not installed. */
export function mosquitto(dir: string, lines: readonly string[] = []): Promise<Running | undefined> {
  return openMosquitto(dir, ['persistence false', ...lines]);
}

/** With its snapshots as often as it makes them; they do not precede its acknowledgements. */
export function mosquittoWithSnapshots(dir: string): Promise<Running | undefined> {
  const lines = ['persistence true', `persistence_location ${dir}/`, 'autosave_interval 1', 'user root'];
  return openMosquitto(dir, lines);
}

async function openMosquitto(dir: string, lines: readonly string[]): Promise<Running | undefined> {
  const port = await freePort();
  const config = join(dir, 'mosquitto.conf');
  writeFileSync(
    config,
    `listener ${port} 127.0.0.1\nallow_anonymous true\nlog_dest none\nmax_inflight_messages 0\n${lines.join('\n')}\n`,
  );
  for (const program of ['mosquitto', '/usr/sbin/mosquitto']) {
    const child = spawn(program, ['-c', config], { stdio: 'ignore' });
    const started = await new Promise<boolean>((resolve) => {
      child.once('error', () => resolve(false));
      child.once('spawn', () => resolve(true));
    });
    if (!started) continue;
    while (!(await answers(port))) await delay(20);
    return {
      port,
      pid: child.pid as number,
      ask: () => Promise.reject(new Error('no commands')),
      stop: stopper(child),
    };
  }
  return undefined;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(socket.destroy() !== undefined));
    socket.once('error', () => resolve(false));
  });
}

/** Resident memory of a process in MiB. */
export function rssMiB(pid: number): number {
  const [, kib] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1024);
}
