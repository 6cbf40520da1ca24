/**
 * A fleet after a shared outage, with real brokers and databases: `node dist/test/bench/fleet.js [--gateways 1000] …`. It
 * exits with 1 when anything is lost or not proved complete.
 */
import { parseArgs } from 'node:util';
import { fleetRun, milliseconds } from './fleet-run.js';
import { mosquitto, scratch } from './peers.js';
import { openPostgres } from './postgres.js';

const { values } = parseArgs({
  options: {
    gateways: { type: 'string', default: '1000' },
    fresh: { type: 'string', default: '50' },
    backlog: { type: 'string', default: '6h' },
    interval: { type: 'string', default: '30s' },
    metrics: { type: 'string', default: '4' },
    live: { type: 'string', default: '60s' },
    workers: { type: 'string', default: '3' },
  },
});

const { dir, remove } = scratch();
const broker = await mosquitto(dir, ['max_queued_messages 0', 'max_queued_bytes 0']);
const postgres = await openPostgres();
if (!broker || !postgres) throw new Error('mosquitto and PostgreSQL must be installed');
try {
  const { backlog, interval, live } = values;
  const result = await fleetRun({
    url: postgres.url,
    brokerPort: broker.port,
    dir,
    workers: Number(values.workers),
    gateways: Number(values.gateways),
    fresh: Number(values.fresh),
    backlog,
    backlogMs: milliseconds(backlog),
    interval,
    metrics: Number(values.metrics),
    live,
    note: (text) => process.stderr.write(`${text}\n`),
  });
  console.log(JSON.stringify(result, null, 2));
  process.exitCode = result.lost === 0 && result.metricHours.other === 0 ? 0 : 1;
} finally {
  await postgres.stop();
  await broker.stop();
  remove();
}
