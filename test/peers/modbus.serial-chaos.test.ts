import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SERIAL_DEFAULTS } from '../../src/readers/modbus/endpoint.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import type { FakeRtu } from '../integration/readers.fake-rtu.js';
import { rtuChaos } from '../integration/readers.rtu-chaos.js';

const socat = peer('socat');
const skip = socat ? false : 'socat is not installed';

/** A serial port whose other end is the device's socket. */
async function serialTo(t: TestContext, { endpoint }: FakeRtu) {
  if (endpoint.kind !== 'tcp') throw new Error('a socket');
  const path = join(tempDir(t), 'line');
  const child = spawn(socat as string, [`pty,raw,echo=0,link=${path}`, `tcp:127.0.0.1:${endpoint.port}`], {
    stdio: 'ignore',
  });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await until('the port', () => existsSync(path));
  return { kind: 'serial', framing: 'rtu', path, ...SERIAL_DEFAULTS, baudRate: 115_200, parity: 'none' } as const;
}

for (const seed of [3, 4])
  test(
    `a serial line, seed ${seed}: every good value is what the device held there when it was last asked`,
    { skip },
    (t) => rtuChaos(t, seed, (device) => serialTo(t, device)),
  );
