/** A damaged file that is too large for one start: the rest of it follows while the gateway runs. */
import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Millis } from '../../src/model/ids.js';
import { layoutOf } from '../../src/store/layout.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { openGateway, plantClient } from '../helpers/gateway.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { canMount, smallDisk } from '../helpers/tmpfs.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const PAGE = 4096;
const MIB = 1024 * 1024;
/** More than a start brings over (100,000). */
const ROWS = 130_000;
const GROUP_ROWS = 5_000;

type Opened = Awaited<ReturnType<typeof openSpool>>;

/** A closed spool of readings whose values are 0, 1, 2 …, with noise in two of its pages. */
async function damagedSpool(t: TestContext, path = join(tempDir(t), 'spool.db')): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  const { store, spool } = await openSpool(t, path);
  const enqueuedAt = (Date.now() - 60_000) as Millis;
  for (let n = 0; n < ROWS; n += GROUP_ROWS)
    await spool.enqueue(Array.from({ length: GROUP_ROWS }, (_, i) => ({ ...reading(n + i), enqueuedAt })));
  await store.close();
  smash(path, 0.3, 0.9);
  return path;
}

/** Pages at these shares of the file. */
function smash(path: string, ...shares: number[]): void {
  const pages = statSync(path).size / PAGE;
  const fd = openSync(path, 'r+');
  for (const share of shares) writeSync(fd, Buffer.alloc(PAGE, 0xa5), 0, PAGE, Math.floor(pages * share) * PAGE);
  closeSync(fd);
}

async function valuesOf({ spool }: Opened): Promise<number[]> {
  const rows = await spool.peek(0 as never, 10 * ROWS, 1e9);
  return rows
    .filter(({ type }) => type === 'f')
    .map(({ payload }) => JSON.parse(Buffer.from(payload).toString()).value);
}

async function salvageAll({ spool }: Opened): Promise<void> {
  while ((await spool.salvage()) > 0);
}

/** Every salvaged reading once and in order, whatever else has come in between. */
function assertInOrder(values: readonly number[], lostMax = 400): void {
  const old = values.filter((value) => value < ROWS);
  assert.equal(new Set(old).size, old.length, 'none twice');
  assert.ok(old.every((value, n) => n === 0 || value > (old[n - 1] as number)));
  assert.ok(old.length < ROWS && old.length > ROWS - lostMax, `${old.length} rows`);
}

test('the rest follows in steps behind what comes meanwhile, and then it is known what is missing', async (t) => {
  const opened = await openSpool(t, await damagedSpool(t));
  const { spool, store } = opened;
  assert.ok(store.damage);
  const before = await spool.stats();
  assert.ok(before.rows >= 100_000 && before.rows < ROWS - 10_000, `${before.rows} at the start`);
  assert.ok(spool.toSalvage > 0);
  assert.equal(await spool.damage(), undefined, 'nobody knows yet');
  await spool.enqueue([reading(ROWS)]);
  await spool.salvage();
  await spool.enqueue([reading(ROWS + 1)]);
  await salvageAll(opened);
  assert.equal(spool.toSalvage, 0);
  assert.equal(await spool.salvage(), 0, 'and there is no more');
  const values = await valuesOf(opened);
  assertInOrder(values);
  assert.ok(values.indexOf(ROWS) < values.indexOf(ROWS + 1) && values.at(-1) !== ROWS + 1, 'live ones in between');
  const { report } = (await spool.damage()) ?? {};
  assert.equal(report?.salvaged, values.length - 2);
  assert.equal(report?.missing, ROWS - (values.length - 2));
  assert.deepEqual([...(report?.assets ?? [])].sort(), ['a0', 'a1', 'a2', 'a3']);
  const stats = await spool.stats();
  assert.deepEqual([stats.rows, stats.received, stats.balanced], [values.length, values.length, true]);
});

test('a run that ends in the middle: the next one goes on, no row comes twice, and the last sign of life stays', async (t) => {
  const path = await damagedSpool(t);
  let opened = await openSpool(t, path);
  const { aliveAt } = opened.spool.previous;
  let lives = 0;
  for (; opened.spool.toSalvage > 0; lives++) {
    await opened.spool.salvage();
    await opened.spool.salvage();
    await opened.store.close();
    opened = await openSpool(t, path);
    assert.equal(opened.store.damage, undefined);
    assert.equal(opened.spool.previous.aliveAt, aliveAt, 'old rows are no sign of life');
  }
  assert.ok(lives > 3, `${lives} lives`);
  const values = await valuesOf(opened);
  assertInOrder(values);
  assert.equal((await opened.spool.damage())?.report.missing, ROWS - values.length);
});

test('the quarantine has been taken away: what was not read is missing, and nothing loops', async (t) => {
  const path = await damagedSpool(t);
  const first = await openSpool(t, path);
  const { rows } = await first.spool.stats();
  const folder = first.store.damage?.folder as string;
  await first.store.close();
  rmSync(folder, { recursive: true });
  const opened = await openSpool(t, path);
  assert.equal(await opened.spool.salvage(), 0);
  const { report } = (await opened.spool.damage()) ?? {};
  assert.deepEqual([report?.salvaged, report?.missing], [rows, ROWS - rows]);
});

test('the new file is damaged, too, before the old one has been read: both are read to their ends', async (t) => {
  const path = await damagedSpool(t);
  const first = await openSpool(t, path);
  await first.spool.enqueue([reading(ROWS)]);
  await first.store.close();
  smash(path, 0.5);
  const opened = await openSpool(t, path);
  assert.ok(opened.store.damage);
  await salvageAll(opened);
  const values = await valuesOf(opened);
  assert.equal(new Set(values).size, values.length, 'none twice');
  assert.ok(values.length < ROWS && values.length > ROWS - 800 && values.includes(ROWS), `${values.length} rows`);
  for (const missing of [/\d/, /\d/]) {
    const { id, report } = (await opened.spool.damage()) ?? {};
    assert.match(String(report?.missing), missing);
    await opened.spool.tellDamage(id as number, []);
  }
  assert.equal(await opened.spool.damage(), undefined);
});

test('on a full device: it starts all the same, in the space of its ballast, and reads on when there is room', {
  skip: canMount,
}, async (t) => {
  const disk = smallDisk(t, 24);
  const path = join(disk.dir, 'spool.db');
  const options = layoutOf(16 * MIB);
  const first = await openSpool(t, path, options);
  const rows = 6_000;
  for (let n = 0; n < rows; n += 500)
    await first.spool.enqueue(Array.from({ length: 500 }, (_, i) => ({ ...reading(n + i), topic: 'x'.repeat(1_000) })));
  await first.store.close();
  smash(path, 0.5);
  disk.fill();
  const opened = await openSpool(t, path, options);
  const { spool, store } = opened;
  assert.ok(store.damage && spool.toSalvage > 0);
  assert.equal((await spool.stats()).rows, 0, 'nothing is brought over yet');
  let done = false;
  store.submit([spool.row(reading(ROWS))], (error) => {
    done = !error;
  });
  await until('it waits', () => store.state === 'full');
  assert.equal(done, false);
  disk.free();
  await until('it goes on', () => done);
  await salvageAll(opened);
  const { report } = (await spool.damage()) ?? {};
  assert.ok(
    report && report.missing !== null && report.missing > 0 && report.missing < 20,
    `${report?.missing} missing`,
  );
  assert.equal((await spool.stats()).rows, rows + 1 - report.missing);
});

test('a whole gateway: it takes messages at once, all of the file arrives, and a gap record says what does not', async (t) => {
  const dir = tempDir(t);
  await damagedSpool(t, join(dir, 'data/spool.db'));
  const values = new Set<number>();
  const gaps: number[] = [];
  const { cloud } = await openCloud(t, {
    onPublish: ({ payload }) => {
      for (const row of decodeBatch(payload).rows) {
        if (row.type === 'f') values.add(row.value as number);
        else if (row.type === 'g' && row.gap.reason === 'spool-corrupt' && row.gap.count) gaps.push(row.gap.count);
      }
    },
  });
  cloud.set({ absent: true });
  const gateway = await openGateway(t, dir, { upstreamPort: cloud.port });
  const client = await plantClient(t, gateway);
  await client.publishAsync('plant/a0/m0', JSON.stringify({ ts: Date.now(), value: ROWS + 1 }), { qos: 1 });
  const { causes, spool } = await gateway.status();
  if (spool.toSalvage > 0) assert.match(causes.join(), /a damaged spool file is being read/);
  cloud.set({ absent: false });
  await until('it has been read', async () => (await gateway.status()).spool.toSalvage === 0, 60_000);
  await until('the gap is told', () => gaps.length > 0, 60_000);
  await until('all have arrived', async () => (await gateway.status()).spool.rows === 0, 60_000);
  assert.equal(values.size - 1 + (gaps[0] as number), ROWS, 'arrived and missing are all');
  assert.ok(values.has(ROWS + 1));
});
