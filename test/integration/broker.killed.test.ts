import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Broker } from '../../src/broker/broker.js';
import { systemClock } from '../../src/lib/clock.js';
import type { Seq } from '../../src/model/ids.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { RawClient } from '../helpers/broker.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const KILLS = 4;
const ACKED_PER_LIFE = 1_000;
const WINDOW = 50;

/** Publishes numbered messages in one QoS over any number of broker lives; sends again what was not acknowledged. */
class Publisher {
  readonly acked = new Set<number>();
  /** Packet id to number, as this publisher keeps it until the handshake is over. */
  private readonly open = new Map<number, { n: number; received: boolean }>();
  private nextN = 0;
  private nextId = 0;
  readonly qos: 1 | 2;
  readonly version: number;

  constructor(qos: 1 | 2, version: number) {
    this.qos = qos;
    this.version = version;
  }

  get name(): string {
    return `p${this.qos}-${this.version}`;
  }

  resume(raw: RawClient): void {
    for (const [id, { n, received }] of this.open) {
      if (received) raw.send({ cmd: 'pubrel', messageId: id });
      else raw.publish(this.name, String(n), this.qos, id, { dup: true });
    }
    this.fill(raw);
  }

  step(raw: RawClient): void {
    for (const packet of raw.packets.splice(0)) {
      const id = packet.messageId as number;
      const entry = this.open.get(id);
      if (!entry) continue;
      if (packet.cmd === 'pubrec') {
        entry.received = true;
        this.acked.add(entry.n);
        raw.send({ cmd: 'pubrel', messageId: id });
      } else if (packet.cmd === 'puback' || packet.cmd === 'pubcomp') {
        this.acked.add(entry.n);
        this.open.delete(id);
      }
    }
    this.fill(raw);
  }

  private fill(raw: RawClient): void {
    while (this.open.size < WINDOW) {
      do this.nextId = (this.nextId % 65_535) + 1;
      while (this.open.has(this.nextId));
      this.open.set(this.nextId, { n: this.nextN, received: false });
      raw.publish(this.name, String(this.nextN++), this.qos, this.nextId);
    }
  }
}

async function start(path: string): Promise<{ process: ChildProcess; port: number }> {
  const program = fileURLToPath(new URL('../helpers/broker-process.js', import.meta.url));
  const child = spawn(process.execPath, [program], {
    env: { ...process.env, SPOOL_PATH: path },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { process: child, port: Number(String(line)) };
}

test('a broker that is killed again and again has every acknowledged message, and QoS 2 exactly once', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const publishers = [new Publisher(1, 4), new Publisher(2, 4), new Publisher(1, 5), new Publisher(2, 5)];
  for (let life = 1; life <= KILLS; life++) {
    const broker = await start(path);
    t.after(() => broker.process.kill('SIGKILL'));
    const session = { clean: false, properties: { sessionExpiryInterval: 600 } };
    const raws = await Promise.all(
      publishers.map(({ name, version }) =>
        RawClient.connect(t, broker.port, name, {
          version,
          ...session,
          ...(version === 4 ? { properties: undefined } : {}),
        }),
      ),
    );
    for (const [i, publisher] of publishers.entries()) publisher.resume(raws[i] as RawClient);
    await until('enough is acknowledged', () => {
      for (const [i, publisher] of publishers.entries()) publisher.step(raws[i] as RawClient);
      return publishers.every(({ acked }) => acked.size >= life * ACKED_PER_LIFE);
    });
    broker.process.kill('SIGKILL');
    await once(broker.process, 'exit');
    for (const [i, publisher] of publishers.entries()) publisher.step(raws[i] as RawClient);
  }
  const store = await Store.open({ path, tables: [Spool.tables, Broker.tables] });
  t.after(() => store.close());
  const spool = await Spool.open(store, systemClock);
  const rows = await spool.peek(0 as Seq, 1_000_000, 1 << 30);
  for (const { name, qos, acked } of publishers) {
    const stored = rows.filter(({ topic }) => topic === name).map(({ payload }) => Number(Buffer.from(payload)));
    const distinct = new Set(stored);
    assert.deepEqual(
      [...acked].filter((n) => !distinct.has(n)),
      [],
      `${name}: acknowledged and missing`,
    );
    if (qos === 2) assert.equal(stored.length, distinct.size, `${name}: stored twice`);
  }
});
