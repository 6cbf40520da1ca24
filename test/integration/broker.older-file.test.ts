import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import type { Admit } from '../../src/broker/admit.js';
import { Broker } from '../../src/broker/broker.js';
import { tables } from '../../src/broker/tables.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { Store } from '../../src/store/store.js';
import { RawClient } from '../helpers/broker.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const NEWEST = tables.migrations.length;

interface Opened {
  readonly broker: Broker;
  readonly port: number;
  close(): Promise<void>;
}

async function open(t: TestContext, path: string): Promise<Opened> {
  const store = await Store.open({ path, tables: [Broker.tables] });
  const admit: Admit = (_message, _identity, ops, done) => store.submit(ops, done);
  const listeners = [{ url: 'mqtt://127.0.0.1:0', anonymous: true }];
  const broker = await Broker.open({ store, admit, listeners, clock: systemClock, log: silentLog });
  const close = async (): Promise<void> => {
    await broker.close({ budgetMs: 500 });
    await store.close();
  };
  t.after(close);
  return { broker, port: Number(new URL(broker.addresses[0] as string).port), close };
}

/** A file as an older program left it: its schema, and rows of it. */
function makeOlder(path: string, version: number): void {
  const db = new Database(path);
  for (const { name } of db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[])
    if (/^(retained|sessions|subscriptions|outgoing|incoming|wills)$/.test(name)) db.exec(`DROP TABLE ${name}`);
  for (const sql of tables.migrations.slice(0, version)) db.exec(sql);
  const since2 = version >= 2 ? ", 'publisher', NULL" : '';
  const since4 = version >= 4 ? ', 0' : '';
  db.exec(`INSERT INTO retained VALUES ('plant/kept', CAST('old value' AS BLOB), NULL, 1, 0${since2}${since4});
    INSERT INTO sessions VALUES (7, 'absent', NULL, NULL, NULL);
    INSERT INTO subscriptions VALUES (7, 'plant/#', 1, 0, 0, 0, 0);
    INSERT INTO outgoing VALUES (3, 7, NULL, 0, 'plant/queued', CAST('waiting' AS BLOB), NULL, 1, 0, 0, NULL);
    INSERT INTO wills VALUES ('absent', 'plant/will', CAST('gone' AS BLOB), NULL, 1, 0, 0, 3600, NULL${version >= 2 ? ', NULL' : ''})`);
  db.prepare("UPDATE store_meta SET value = ? WHERE key = 'schema.broker'").run(version);
  db.close();
}

for (let version = 1; version <= NEWEST; version++) {
  test(`a file of schema ${version} opens, with its session, its queue and its retained value`, async (t) => {
    const path = join(tempDir(t), 'spool.db');
    await (await open(t, path)).close();
    makeOlder(path, version);
    const { broker, port, close } = await open(t, path);
    const { sessions, subscriptions, retained, queuedRows } = broker.status();
    assert.deepEqual([sessions, subscriptions, queuedRows], [1, 1, 1]);
    // The topics that the broker publishes about itself are retained, too.
    assert.ok(retained >= 1);
    const raw = await RawClient.connect(t, port, 'absent', { clean: false });
    const queued = await raw.next('publish');
    assert.deepEqual([queued.topic, String(queued.payload)], ['plant/queued', 'waiting']);
    raw.send({ cmd: 'puback', messageId: queued.messageId });
    raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'plant/kept', qos: 1 }] });
    const kept = await raw.next('publish');
    assert.deepEqual([kept.topic, String(kept.payload), kept.retain], ['plant/kept', 'old value', true]);
    raw.publish('plant/kept', 'new value', 1, 2, { retain: true });
    await raw.next('puback');
    raw.socket.destroy();
    await until('it to be away', () => broker.status().clients === 0);
    await close();
    const db = new Database(path, { readonly: true });
    t.after(() => db.close());
    assert.equal(db.prepare("SELECT value FROM store_meta WHERE key = 'schema.broker'").pluck().get(), NEWEST);
    assert.equal(String(db.prepare('SELECT payload FROM retained').pluck().get()), 'new value');
  });
}

test('a file of a newer program is refused, and left as it is', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  await (await open(t, path)).close();
  makeOlder(path, NEWEST);
  const db = new Database(path);
  db.prepare("UPDATE store_meta SET value = ? WHERE key = 'schema.broker'").run(NEWEST + 1);
  db.close();
  await assert.rejects(Store.open({ path, tables: [Broker.tables] }), { code: 'spool.version' });
  const after = new Database(path, { readonly: true });
  t.after(() => after.close());
  assert.equal(String(after.prepare('SELECT payload FROM retained').pluck().get()), 'old value');
});
