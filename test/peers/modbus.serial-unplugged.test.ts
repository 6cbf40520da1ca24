import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { SERIAL_DEFAULTS } from '../../src/readers/modbus/endpoint.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { FakeRtu } from '../integration/readers.fake-rtu.js';
import { drive } from './modbus-peers.js';

const socat = peer('socat');
const skip = socat ? false : 'socat is not installed';

test('a serial adapter that is pulled out and put back: bad, then good again, and a gap in between', {
  skip,
}, async (t) => {
  const device = await FakeRtu.listen(t);
  if (device.endpoint.kind !== 'tcp') throw new Error('a socket');
  const target = `tcp:127.0.0.1:${device.endpoint.port}`;
  const path = join(tempDir(t), 'adapter');
  let adapter: ChildProcess | undefined;
  const plugIn = async () => {
    adapter = spawn(socat as string, [`pty,raw,echo=0,link=${path}`, target], { stdio: 'ignore' });
    await until('the port', () => existsSync(path));
  };
  const pullOut = async () => {
    if (!adapter || adapter.exitCode !== null || adapter.signalCode !== null) return;
    adapter.kill('SIGTERM');
    await once(adapter, 'exit');
  };
  t.after(pullOut);
  await plugIn();
  const { driver, batches, last } = drive(
    t,
    { kind: 'serial', framing: 'rtu', path, ...SERIAL_DEFAULTS, parity: 'none' },
    [
      {
        asset: 'meter',
        unit: 1,
        order: 'ABCD',
        addressing: 'pdu0',
        groups: [{ everyMs: 50, tags: [{ name: 'power', at: 'hr:7', type: 'u16' }] }],
      },
    ],
  );
  const good = () => last('meter', 'power')?.quality === GOOD;
  await until('a first value', good);
  await pullOut();
  await until(
    'the loss seen',
    () => driver.status().link.state === 'backoff' && last('meter', 'power')?.value === null,
  );
  await plugIn();
  await until('good again', good, 20_000);
  assert.equal(batches.filter(({ gap }) => gap?.reason === 'device-unreachable').length, 1);
  assert.equal(last('meter', 'power')?.value, 7);
});
