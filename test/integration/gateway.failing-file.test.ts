import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { connectAsync } from 'mqtt';
import { decodeBatch } from '../../src/wire/decode.js';
import { flipBit, killedSpool, overwrite, quarantines } from '../helpers/damage.js';
import { gatewayConfigFile, openGateway, plantClient } from '../helpers/gateway.js';
import { tempDir } from '../helpers/tmp.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const MAIN = new URL('../../src/main.js', import.meta.url).pathname;

interface Running {
  readonly child: ChildProcess;
  readonly mqtt: string;
  readonly log: () => string;
  readonly exit: Promise<number>;
}

/** The program as a process of its own. */
async function startGateway(t: TestContext, config: string): Promise<Running> {
  const child = spawn(process.execPath, [MAIN, 'gateway', '--config', config, '--json']);
  t.after(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  const exit = once(child, 'exit').then(([code]) => code as number);
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exit.then(() => Promise.reject(new Error(log))),
  ]);
  return { child, mqtt: JSON.parse(line as string).mqtt[0], log: () => log, exit };
}

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit is not installed';

test('an I/O error: no acknowledgement from then on, exit code 74, and everything acknowledged is there after a restart', {
  skip: hasPrlimit,
}, async (t) => {
  const dir = tempDir(t);
  const config = gatewayConfigFile(dir, {});
  const { child, mqtt, log, exit } = await startGateway(t, config);
  const client = await connectAsync(mqtt, { clientId: 'plc', reconnectPeriod: 0 });
  client.on('error', () => {});
  const acked = new Set<string>();
  const publish = (n: number) =>
    client.publishAsync('plant/x', `m${n}`.padEnd(2_000, '.'), { qos: 1 }).then(
      () => acked.add(`m${n}`),
      () => {},
    );
  for (let n = 0; n < 50; n++) await publish(n);
  // From here on a write beyond this size fails, and not because the device is full.
  const size = statSync(join(dir, 'data/spool.db-wal')).size;
  const limited = spawnSync('prlimit', ['--pid', String(child.pid), `--fsize=${size + 40_000}`]);
  assert.equal(limited.status, 0, String(limited.stderr));
  for (let n = 50; n < 200; n++) void publish(n);
  assert.equal(await exit, 74);
  assert.match(log(), /nothing is acknowledged any more/);
  await client.endAsync(true);
  assert.ok(acked.size >= 50 && acked.size < 200, `${acked.size} acknowledged`);

  const arrived = new Set<string>();
  const { cloud } = await openCloud(t, {
    onPublish: ({ payload }) => {
      for (const row of decodeBatch(payload).rows)
        if (row.type === 'p') arrived.add(Buffer.from(row.payload).toString().replace(/\.+$/, ''));
    },
  });
  await openGateway(t, dir, { upstreamPort: cloud.port });
  await until('all acknowledged ones arrive', () => [...acked].every((name) => arrived.has(name)));
});

/** A file that is too large to be looked through at every start, with bad pages in its middle; a start reads its end. */
async function largeSpoiledFile(t: TestContext, rows: number): Promise<{ dir: string; path: string }> {
  const dir = tempDir(t);
  const killed = await killedSpool(t, rows, { perCommit: 500, logPagesMax: 100, payloadBytes: 2_000 });
  mkdirSync(join(dir, 'data'));
  const path = join(dir, 'data/spool.db');
  for (const suffix of ['', '-wal']) copyFileSync(killed.path + suffix, path + suffix);
  assert.ok(statSync(path).size > 64 * 1024 * 1024);
  const pages = statSync(path).size / 4096;
  const whole = readFileSync(path);
  for (let page = Math.floor(pages / 2); page < pages / 2 + 40; page++)
    whole.fill(0xa5, page * 4096, (page + 1) * 4096);
  writeFileSync(path, whole);
  return { dir, path };
}

test('pages that go bad under a running gateway: it ends, and the next start looks at every page', async (t) => {
  // The last 10,000 are not counted yet, and read by the start.
  const { dir, path } = await largeSpoiledFile(t, 60_000);
  const { cloud } = await openCloud(t);
  const config = gatewayConfigFile(dir, { upstreamPort: cloud.port });
  const first = await startGateway(t, config);
  assert.equal(await first.exit, 74, 'the damage is met when the rows are read');
  assert.ok(existsSync(`${path}-suspect`));
  assert.deepEqual(quarantines(path), [], 'nothing is judged from a run-time error');

  const second = await startGateway(t, config);
  assert.match(second.log(), /The spool file was damaged/);
  assert.equal(quarantines(path).length, 1);
  assert.ok(!existsSync(`${path}-suspect`));
  second.child.kill('SIGTERM');
  assert.equal(await second.exit, 0);
});

test('bad pages that a start meets when it counts: it looks at every page at once', async (t) => {
  const { dir, path } = await largeSpoiledFile(t, 40_000);
  const { cloud } = await openCloud(t);
  const gateway = await startGateway(t, gatewayConfigFile(dir, { upstreamPort: cloud.port }));
  assert.match(gateway.log(), /The spool file was damaged/);
  assert.equal(quarantines(path).length, 1);
  assert.ok(!existsSync(`${path}-suspect`));
  gateway.child.kill('SIGTERM');
  assert.equal(await gateway.exit, 0);
});

for (const [name, logPagesMax, harm] of [
  ['all zeros', 50, (path: string) => writeFileSync(path, Buffer.alloc(statSync(path).size))],
  ['a bad bit in the log', 1_000, (path: string) => flipBit(`${path}-wal`, 32 + 30 * 4120 + 700, 4)],
  ['smashed pages', 50, (path: string) => overwrite(path, 20 * 4096, Buffer.alloc(3 * 4096, 0x5a))],
] as const) {
  test(`${name}: the gateway starts within seconds, and the cloud is told of the gap`, async (t) => {
    const dir = tempDir(t);
    const killed = await killedSpool(t, 3_000, { perCommit: 50, logPagesMax, payloadBytes: 100 });
    mkdirSync(join(dir, 'data'));
    const path = join(dir, 'data/spool.db');
    for (const suffix of ['', '-wal']) copyFileSync(killed.path + suffix, path + suffix);
    harm(path);
    const gaps: { asset: string; reason: string; from: number; to: number }[] = [];
    const epochs = new Set<string>();
    const { cloud } = await openCloud(t, {
      onPublish: ({ payload }) => {
        const batch = decodeBatch(payload);
        epochs.add(batch.source.epoch);
        for (const row of batch.rows)
          if (row.type === 'g') gaps.push({ asset: row.asset, ...row.gap, reason: row.gap.reason });
      },
    });
    const gateway = await openGateway(t, dir, { upstreamPort: cloud.port });
    const client = await plantClient(t, gateway);
    await client.publishAsync('plant/press/temperature', JSON.stringify({ ts: Date.now(), value: 1 }), { qos: 1 });
    await until('the gap has arrived', () => gaps.some(({ reason }) => reason === 'spool-corrupt'));
    const gap = gaps.find(({ reason }) => reason === 'spool-corrupt');
    assert.equal(gap?.asset, 'line-1');
    assert.ok((gap?.from ?? 0) <= (gap?.to ?? 0));
    assert.equal(epochs.size, 1);
    assert.ok(!epochs.has(killed.epoch));
    await until('empty', async () => (await gateway.status()).spool.rows === 0);
    assert.ok((await gateway.status()).spool.balanced);
  });
}
