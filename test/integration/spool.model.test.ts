/** Random actions against a small model of what the spool must hold; a failure says its seed, which repeats it. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import type { SpoolInput } from '../../src/model/row.js';
import { takeSnapshot } from '../../src/store/snapshot.js';
import { Random } from '../helpers/random.js';
import { message, openSpool } from '../helpers/spool.js';
import { SpoolModel } from '../helpers/spool-model.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const ROUNDS = Number(process.env.HOLDFAST_MODEL_ROUNDS ?? 4);
const ACTIONS = 100;
const PAYLOAD_BYTES_MAX = 3_000;
/** Small, so that it is full now and then. */
const PAGE_BYTES = 4096;
const ROOM_BYTES = 10 * PAGE_BYTES;
const LIMITS = { pagesMax: 140, logPagesMax: 20 };

const ACTION_NAMES = [
  'enqueue',
  'enqueue',
  'enqueue',
  'read',
  'acknowledge',
  'bury',
  'requeue',
  'drop',
  'reopen',
  'crash',
  'fill',
] as const;

class Run {
  readonly model = new SpoolModel();
  fulls = 0;
  crashes = 0;
  private readonly t: TestContext;
  private readonly random: Random;
  private opened!: Awaited<ReturnType<typeof openSpool>>;
  private path = '';
  private number = 0;

  constructor(t: TestContext, random: Random) {
    this.t = t;
    this.random = random;
  }

  async start(): Promise<void> {
    this.path = join(tempDir(this.t), 'spool.db');
    this.opened = await openSpool(this.t, this.path, LIMITS);
  }

  async act(): Promise<string> {
    const action = this.random.pick(ACTION_NAMES);
    await this[action]();
    await this.model.assertSame(this.opened.spool, this.random.chance(0.2) ? this.random.int(0, this.model.tail) : 0);
    return action;
  }

  async end(): Promise<void> {
    await this.opened.store.close();
  }

  private inputs(): SpoolInput[] {
    return Array.from({ length: this.random.int(1, 12) }, () => {
      const payload = Buffer.from(`m${++this.number}`.padEnd(this.random.int(1, PAYLOAD_BYTES_MAX), '.'));
      return { ...message(this.number, payload), droppable: this.random.chance(0.5) };
    });
  }

  private noted(inputs: readonly SpoolInput[]): void {
    for (const { payload, droppable } of inputs)
      this.model.enqueue(Buffer.from(payload).toString(), droppable === true);
  }

  /** A full spool takes it once the cloud has acknowledged enough; until then it must not say that it has. */
  private async enqueue(): Promise<void> {
    const { store, spool } = this.opened;
    const inputs = this.inputs();
    let seqs: Seq[] | undefined;
    const done = spool.enqueue(inputs).then((given) => {
      seqs = given;
    });
    for (;;) {
      await until('an answer, or no room', () => seqs !== undefined || store.state === 'full');
      if (seqs) break;
      this.fulls++;
      const oldest = this.model.rows[Math.floor(this.model.rows.length / 3)];
      assert.ok(oldest, 'a full spool holds something');
      this.model.acknowledge(oldest.seq);
      spool.acknowledge(oldest.seq as Seq);
      const { acknowledged } = this.model;
      await until('it is deleted', async () => (await spool.stats()).acknowledged === acknowledged);
      await until('it is tried again', () => seqs !== undefined || store.state === 'full');
    }
    await done;
    this.noted(inputs);
    assert.deepEqual(
      seqs,
      this.model.rows.slice(-inputs.length).map(({ seq }) => seq),
    );
  }

  /** A gateway keeps a reserve for what is moved; this file has none. */
  private async makeRoom(): Promise<void> {
    const { fileBytes, freeBytes } = await this.opened.spool.stats();
    if (LIMITS.pagesMax * PAGE_BYTES - fileBytes + freeBytes < ROOM_BYTES) await this.acknowledge(this.model.tail);
  }

  private async fill(): Promise<void> {
    for (let n = 0; n < 8; n++) await this.enqueue();
  }

  private async read(): Promise<void> {
    const after = this.random.int(0, this.model.tail);
    const rowsMax = this.random.int(1, 20);
    const rows = await this.opened.spool.peek(after as Seq, rowsMax, Number.MAX_SAFE_INTEGER);
    assert.deepEqual(
      rows.map(({ seq }) => seq),
      this.model.rows
        .filter(({ seq }) => seq > after)
        .slice(0, rowsMax)
        .map(({ seq }) => seq),
    );
  }

  private async acknowledge(upTo = this.random.int(0, this.model.tail)): Promise<void> {
    this.opened.spool.acknowledge(upTo as Seq);
    this.model.acknowledge(upTo);
    await this.opened.store.commit([]);
  }

  private async bury(): Promise<void> {
    await this.makeRoom();
    const seq = this.random.pick(this.model.rows)?.seq ?? this.model.tail + 1;
    assert.equal(await this.opened.spool.bury(seq as Seq, 'because'), this.model.bury(seq));
  }

  private async requeue(): Promise<void> {
    const seq = this.random.pick(this.model.dead)?.seq ?? this.model.tail + 1;
    assert.equal(await this.opened.spool.requeue(seq as Seq), this.model.requeue(seq));
  }

  private async drop(): Promise<void> {
    const [after, bytes] = [this.random.int(0, this.model.tail), this.random.int(1, 20_000)];
    assert.equal(await this.opened.spool.drop(after as Seq, bytes), this.model.drop(after, bytes));
  }

  private async reopen(): Promise<void> {
    await this.opened.store.close();
    this.opened = await openSpool(this.t, this.path, LIMITS);
  }

  /** The files as they are while groups and an acknowledgement are on their way: some have arrived, in order, or none. */
  private async crash(): Promise<void> {
    this.crashes++;
    const { store, spool } = this.opened;
    const { acknowledged, rows } = this.model;
    const groups = Array.from({ length: this.random.int(0, 3) }, () => this.inputs());
    const answered: number[] = [];
    for (const [n, inputs] of groups.entries())
      spool.enqueue(inputs).then(
        () => answered.push(n),
        () => {},
      );
    const upTo = this.random.int(0, this.model.tail);
    spool.acknowledge(upTo as Seq);
    if (this.random.chance(0.5)) await store.query('spool.about');
    const promised = answered.length;
    const snapshot = await takeSnapshot(this.path);
    const path = join(tempDir(this.t), 'spool.db');
    for (const suffix of ['', '-wal'])
      if (existsSync(snapshot.path + suffix)) copyFileSync(snapshot.path + suffix, path + suffix);
    snapshot.remove();
    await store.close();
    this.path = path;
    this.opened = await openSpool(this.t, path, LIMITS);
    assert.equal(this.opened.store.damage, undefined);
    const stats = await this.opened.spool.stats();
    if (stats.acknowledged > acknowledged || rows.every(({ seq }) => seq > upTo)) this.model.acknowledge(upTo);
    for (const [n, inputs] of groups.entries()) {
      if (stats.tail === this.model.tail) {
        assert.ok(n >= promised, 'what was acknowledged is there');
        break;
      }
      this.noted(inputs);
    }
  }
}

const firstSeed = Number(process.env.HOLDFAST_MODEL_SEED ?? 1);

for (let seed = firstSeed; seed < firstSeed + ROUNDS; seed++)
  test(`${ACTIONS} random actions, seed ${seed}: the spool holds what the model says`, async (t) => {
    const run = new Run(t, new Random(seed));
    await run.start();
    const actions: string[] = [];
    try {
      for (let n = 0; n < ACTIONS; n++) actions.push(await run.act());
    } catch (error) {
      t.diagnostic(`seed ${seed}, after ${actions.join(' ')}`);
      throw error;
    }
    await run.end();
    t.diagnostic(`${run.crashes} crashes, full ${run.fulls} times, ${run.model.tail} seqs`);
    assert.ok(run.crashes > 0 && run.model.tail > 0);
  });
