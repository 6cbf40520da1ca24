import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { openRunning } from '../helpers/running.js';
import { sample, scrape } from '../helpers/scrape.js';

/** Metrics that every expression of a text uses; `up` is Prometheus' own. */
function metricsIn(text: string): Set<string> {
  return new Set([...text.matchAll(/\b(?:holdfast|process|nodejs)_\w+/g)].map(([name]) => name));
}

const rules = parse(readFileSync('config/alerts.yaml', 'utf8')) as {
  groups: { rules: { alert: string; expr: string }[] }[];
};
const alerts = rules.groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(readFileSync('config/dashboard.json', 'utf8')) as {
  panels: { title: string; targets?: { expr: string }[] }[];
};
const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

test('every metric of the alert rules and of the dashboard is in the scrape of a running gateway or ingest', async (t) => {
  const { web, gateway } = await openRunning(t);
  const [edge, cloud] = [await scrape(web.gateway), await scrape(web.ingest)];
  assert.ok(alerts.length >= 20 && expressions.length >= 30);
  for (const expr of [...alerts.map((rule) => rule.expr), ...expressions])
    for (const name of metricsIn(expr)) assert.ok(edge.names.has(name) || cloud.names.has(name), `${name} in ${expr}`);

  // The account adds up in the scrape itself, and it is that of the status.
  const figure = (name: string) => sample(edge.text, `holdfast_spool_${name}`) as number;
  const [received, rows] = [figure('received_total'), figure('rows')];
  assert.equal(received, rows + figure('acknowledged_total') + figure('dropped_total') + figure('dead_total'));
  assert.ok(received > 100 && (await gateway.status()).spool.received >= received);
  assert.equal(figure('balanced'), 1);
  // Nothing that counts a loss appears out of nowhere.
  assert.equal(sample(edge.text, 'holdfast_broker_dropped_total{reason="slow-subscriber"}'), 0);
  assert.equal(sample(cloud.text, 'holdfast_ingest_rows_total{outcome="conflicts"}'), 0);
  assert.equal(sample(cloud.text, 'holdfast_ingest_dead_batches_total'), 0);
  assert.ok((sample(cloud.text, 'holdfast_ingest_rows_total{outcome="stored"}') as number) > 100);
});

test('every alert has a heading in docs/operations.md that says what to do', () => {
  const text = readFileSync('docs/operations.md', 'utf8');
  for (const { alert } of alerts) assert.ok(text.includes(`\`${alert}\``), alert);
});
