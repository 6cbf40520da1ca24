import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import { message, openSpool } from './spool.js';
import { tempDir } from './tmp.js';

export interface KilledSpool {
  readonly path: string;
  readonly wal: string;
  /** Payloads by seq, as they were acknowledged. */
  readonly payloads: readonly string[];
  readonly epoch: string;
}

/** The files of a spool whose process was killed after `rows` acknowledged rows, one per commit or `perCommit` at a time. */
export async function killedSpool(
  t: TestContext,
  rows: number,
  { perCommit = 1, logPagesMax = 1_000, payloadBytes = 0 } = {},
): Promise<KilledSpool> {
  const live = join(tempDir(t), 'spool.db');
  const { store, spool } = await openSpool(t, live, { logPagesMax });
  const payloads = Array.from({ length: rows }, (_, n) => `m${n}`.padEnd(payloadBytes, '.'));
  for (let n = 0; n < rows; n += perCommit)
    await spool.enqueue(payloads.slice(n, n + perCommit).map((payload, i) => message(n + i, Buffer.from(payload))));
  const path = join(tempDir(t), 'spool.db');
  copyFileSync(live, path);
  copyFileSync(`${live}-wal`, `${path}-wal`);
  await store.close();
  return { path, wal: `${path}-wal`, payloads, epoch: spool.epoch };
}

/** Everything the spool holds, in order. */
export async function payloadsOf({ spool }: Awaited<ReturnType<typeof openSpool>>): Promise<string[]> {
  const rows = await spool.peek(0 as Seq, 1_000_000, 1e9);
  return rows.map((row) => Buffer.from(row.payload).toString());
}

export function overwrite(file: string, at: number, bytes: Uint8Array): void {
  const whole = readFileSync(file);
  whole.set(bytes, at);
  writeFileSync(file, whole);
}

export function flipBit(file: string, at: number, bit = 0): void {
  const whole = readFileSync(file);
  whole[at] = (whole[at] as number) ^ (1 << bit);
  writeFileSync(file, whole);
}

/** The quarantine folders beside a spool, each with its files. */
export function quarantines(path: string): string[][] {
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith('quarantine-'))
    .map((name) => readdirSync(join(dirname(path), name)).sort());
}

/** Nothing of a repair may be left behind. */
export function leftovers(path: string): string[] {
  return ['-fresh', '-fresh-wal', '-quarantine', '-suspect'].filter((suffix) => existsSync(path + suffix));
}
