import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import type { Millis } from '../../src/model/ids.js';
import type { SpoolInput } from '../../src/model/row.js';
import { Spool } from '../../src/spool/spool.js';
import { Store, type StoreOptions } from '../../src/store/store.js';

/** A real store and spool on `path`; closed with the test unless it was closed before. */
export async function openSpool(t: TestContext, path: string, options: Partial<StoreOptions> = {}) {
  const store = await Store.open({ path, tables: [Spool.tables], ...options });
  t.after(() => store.close());
  const spool = await Spool.open(store, systemClock);
  t.after(async () => assert.ok((await spool.stats()).balanced, 'the spool adds up when a test ends'));
  return { store, spool };
}

/** An opaque message whose payload says which one it is. */
export function message(n: number, payload: Uint8Array = Buffer.from(`m${n}`)): SpoolInput {
  const base = { topic: `plant/t${n % 7}`, payload, qos: 1, retain: false, props: null } as const;
  return { ...base, type: 'p', asset: null, metric: null, deviceTs: null };
}

export function reading(n: number, deviceTs = 1_790_000_000_000 + n): SpoolInput {
  const payload = Buffer.from(JSON.stringify({ ts: deviceTs, value: n }));
  const base = { topic: `plant/a${n % 4}/m${n % 10}`, payload, qos: 1, retain: true, props: null } as const;
  return { ...base, type: 'f', asset: `a${n % 4}`, metric: `m${n % 10}`, deviceTs: deviceTs as Millis };
}
