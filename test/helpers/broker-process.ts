/** A broker with a spool in a process of its own, to be killed. Says its port on stdout. */
import { Broker } from '../../src/broker/broker.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';

const store = await Store.open({ path: process.env.SPOOL_PATH as string, tables: [Spool.tables, Broker.tables] });
const spool = await Spool.open(store, systemClock);
const opaque = { type: 'p' as const, asset: null, metric: null, deviceTs: null };
const broker = await Broker.open({
  store,
  admit: (message, identity, ops, done) =>
    store.submit([...ops, spool.row({ ...message, ...(identity ?? opaque) })], done),
  listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: true }],
  clock: systemClock,
  log: silentLog,
});
process.stdout.write(`${new URL(broker.addresses[0] as string).port}\n`);
