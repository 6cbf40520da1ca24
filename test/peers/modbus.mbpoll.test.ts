import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { ConfigPlc } from '../../src/sim/config-plc.js';
import { peer } from '../helpers/peers.js';

const mbpoll = peer('mbpoll');
const skip = mbpoll ? false : 'mbpoll is not installed';
const run = promisify(execFile);

test('mbpoll reads and writes a simulated device', { skip }, async (t) => {
  const devices = [
    {
      asset: 'press',
      unit: 1,
      order: 'ABCD' as const,
      groups: [
        {
          tags: [
            { name: 'level', at: 'hr:0', type: 'f32' as const, range: { raw: [20, 21] as const } },
            { name: 'mode', at: 'hr:10', type: 'u16' as const, enum: { 7: 'auto' } },
            { name: 'run', at: 'co:3', type: 'bool' as const },
          ],
        },
      ],
    },
  ];
  const plc = await ConfigPlc.open({ host: '127.0.0.1', port: 0, devices });
  t.after(() => plc.close());
  const poll = async (...args: string[]) =>
    (await run(mbpoll as string, ['-m', 'tcp', '-p', String(plc.port), '-a', '1', '-0', '-1', '-q', ...args])).stdout;
  assert.match(await poll('-t', '4:float', '-B', '-r', '0', '-c', '1', '127.0.0.1'), /\[0\]:\s+2[01]\.5/);
  assert.match(await poll('-t', '4', '-r', '10', '-c', '1', '127.0.0.1'), /\[10\]:\s+7\b/);
  await poll('-t', '4', '-r', '10', '127.0.0.1', '1234');
  assert.match(await poll('-t', '4', '-r', '10', '-c', '1', '127.0.0.1'), /\[10\]:\s+1234\b/);
  await poll('-t', '0', '-r', '3', '127.0.0.1', '1');
  assert.match(await poll('-t', '0', '-r', '3', '-c', '1', '127.0.0.1'), /\[3\]:\s+1\b/);
  await assert.rejects(poll('-t', '4', '-r', '5', '-c', '1', '127.0.0.1'), /Illegal data address/);
});
