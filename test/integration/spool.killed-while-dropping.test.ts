import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { connectAsync } from 'mqtt';
import { verifySpool } from '../../src/gateway/spool-tools.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { gatewayConfigFile, openGateway } from '../helpers/gateway.js';
import { tempDir } from '../helpers/tmp.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const MAIN = new URL('../../src/main.js', import.meta.url).pathname;
const T0 = 1_790_000_000_000;

async function start(t: TestContext, config: string) {
  const child = spawn(process.execPath, [MAIN, 'gateway', '--config', config, '--json'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, url: JSON.parse(line as string).mqtt[0] as string };
}

test('kill −9 again and again while old rows are dropped: every acknowledged reading is stored, or in a gap record', async (t) => {
  const dir = tempDir(t);
  const spool = { bytesMax: '4MiB', whenFull: 'drop-oldest' };
  const config = gatewayConfigFile(dir, { spool });
  const acked = new Set<number>();
  let next = 0;
  for (const acksBeforeKill of [4_000, 1_500, 2_300]) {
    const { child, url } = await start(t, config);
    const client = await connectAsync(url, { reconnectPeriod: 0 });
    client.on('error', () => {});
    const goal = acked.size + acksBeforeKill;
    for (let end = next + acksBeforeKill + 500; next < end; next++) {
      const n = next;
      const payload = JSON.stringify({ ts: T0 + n, value: `${n}`.padEnd(700, '.') });
      client.publishAsync('plant/press/text', payload, { qos: 1 }).then(
        () => acked.add(n),
        () => {},
      );
    }
    await until('many are acknowledged', () => acked.size >= goal, 30_000);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await client.endAsync(true);
    assert.deepEqual(await verifySpool(join(dir, 'data/spool.db')), []);
  }

  const values = new Set<number>();
  const gaps: { from: number; to: number; count: number }[] = [];
  const { cloud } = await openCloud(t, {
    onPublish: ({ payload }) => {
      for (const row of decodeBatch(payload).rows) {
        if (row.type === 's') values.add(Number.parseInt(row.value as string, 10));
        else if (row.type === 'g' && row.gap.reason === 'spool-full')
          gaps.push({ from: row.gap.from - T0, to: row.gap.to - T0, count: row.gap.count ?? 0 });
      }
    },
  });
  const gateway = await openGateway(t, dir, { spool, upstreamPort: cloud.port });
  const { dropped } = (await gateway.status()).spool;
  assert.ok(dropped > 0);
  await until('drained', async () => (await gateway.status()).spool.rows === 0);
  for (const n of acked) assert.ok(values.has(n) || gaps.some(({ from, to }) => from <= n && n <= to), `${n}`);
  const missing = gaps.reduce((sum, { count }) => sum + count, 0);
  assert.equal(missing, dropped);
  assert.ok((await gateway.status()).spool.balanced);
});
