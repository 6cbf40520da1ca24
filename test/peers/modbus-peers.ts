import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { Sample, SampleBatch } from '../../src/readers/driver.js';
import type { Endpoint } from '../../src/readers/modbus/endpoint.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';
import type { ModbusDeviceOptions } from '../../src/readers/modbus/options.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const LIBMODBUS_EXAMPLES = '/usr/share/doc/libmodbus-dev/examples';

/** Starts a program that ends with the test, and gives its first line. */
export async function firstLineOf(t: TestContext, program: string, args: string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  endWith(t, child);
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  await until(`${program} ${args.join(' ')} is ready`, () => text.includes('\n') || child.exitCode !== null);
  if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`);
  return text.split('\n')[0] as string;
}

function endWith(t: TestContext, child: ChildProcess): void {
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
}

/** Two serial ports that are joined, in a folder of their own. */
export async function serialPair(t: TestContext, socat: string): Promise<{ ours: string; theirs: string }> {
  const dir = tempDir(t);
  const [ours, theirs] = [join(dir, 'ours'), join(dir, 'theirs')];
  const child = spawn(socat, [`pty,raw,echo=0,link=${ours}`, `pty,raw,echo=0,link=${theirs}`], { stdio: 'ignore' });
  endWith(t, child);
  const exists = (path: string) => {
    try {
      execFileSync('test', ['-c', path]);
      return true;
    } catch {
      return false;
    }
  };
  await until('both ports', () => exists(ours) && exists(theirs));
  return { ours, theirs };
}

/** One of libmodbus' own example servers, built here, on a port or a serial line of ours. */
export function buildLibmodbusServer(t: TestContext, name: string, port: number, tty = '/dev/null'): string {
  const dir = tempDir(t);
  const source = readFileSync(join(LIBMODBUS_EXAMPLES, `${name}.c`), 'utf8');
  writeFileSync(join(dir, 'server.c'), source.replaceAll('1502', String(port)).replaceAll('/dev/ttyUSB0', tty));
  writeFileSync(join(dir, 'config.h'), '#define HAVE_STRING_H 1\n');
  const flags = execFileSync('pkg-config', ['--cflags', '--libs', 'libmodbus']).toString().trim().split(/\s+/);
  const program = join(dir, 'server');
  const include = ['-I', dir, '-I', LIBMODBUS_EXAMPLES];
  execFileSync('gcc', ['-O2', '-w', '-o', program, join(dir, 'server.c'), ...include, ...flags]);
  return program;
}

/** A driver on a foreign device, and what it has read. */
export function drive(t: TestContext, endpoint: Endpoint, devices: readonly ModbusDeviceOptions[]) {
  const batches: SampleBatch[] = [];
  const stop = new AbortController();
  const driver = new ModbusDriver(
    {
      endpoint,
      connectTimeoutMs: 5000,
      timeoutMs: 1000,
      retries: 1,
      minGapMs: 0,
      backoff: { minMs: 50, maxMs: 200 },
      devices,
    },
    {
      emit: async (batch) => void batches.push(batch),
      status: () => {},
      clock: systemClock,
      log: silentLog,
      signal: stop.signal,
    },
  );
  t.after(() => {
    stop.abort();
    return driver.stop();
  });
  driver.start();
  const last = (device: string, tag: string): Sample | undefined =>
    batches
      .filter((batch) => batch.device === device)
      .flatMap(({ samples }) => samples)
      .findLast((sample) => sample.tag === tag);
  return { driver, batches, last };
}
