import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from '../../src/lib/histogram.js';
import type { Answer } from '../../src/web/answer.js';
import { type Metric, metricsRoute, type Samples } from '../../src/web/metrics.js';
import type { Handler } from '../../src/web/server.js';

async function scraped(...samples: Samples[]): Promise<string> {
  const metrics = samples.map(
    (samples, n): Metric<null> => ({ name: `holdfast_m${n}`, type: 'gauge', help: 'Something.', read: () => samples }),
  );
  return String((await get(metricsRoute({ metrics, source: () => null }))).body);
}

function get(routes: ReturnType<typeof metricsRoute>): Promise<Answer> {
  return Promise.resolve((routes['/metrics'] as Handler)({ query: new URLSearchParams() }));
}

test('a value that is not known now has no sample, and its metric is there all the same', async () => {
  const text = await scraped(null, 7);
  assert.match(text, /# TYPE holdfast_m0 gauge\n\n/);
  assert.match(text, /\nholdfast_m1 7\n/);
});

test('labels are written so that no text in them can break the format', async () => {
  const text = await scraped([[{ device: 'a"b\\c\nd' }, 1]]);
  assert.ok(text.includes('holdfast_m0{device="a\\"b\\\\c\\nd"} 1'), text);
});

test('a histogram counts what is up to each bound, the bound included, and everything in the last one', async () => {
  const histogram = new Histogram([0.1, 1]);
  for (const value of [0.05, 0.1, 0.5, 3]) histogram.observe(value);
  const text = await scraped(histogram);
  const lines = text.split('\n').filter((line) => line.startsWith('holdfast_m0'));
  assert.deepEqual(lines, [
    'holdfast_m0_bucket{le="0.1"} 2',
    'holdfast_m0_bucket{le="1"} 3',
    'holdfast_m0_bucket{le="+Inf"} 4',
    'holdfast_m0_sum 3.65',
    'holdfast_m0_count 4',
  ]);
});

test('each scrape shows the snapshot of its own time', async () => {
  let value = 1;
  const metrics: Metric<number>[] = [{ name: 'holdfast_m', type: 'gauge', help: 'It.', read: (source) => source }];
  const routes = metricsRoute({ metrics, source: () => value });
  assert.match(String((await get(routes)).body), /\nholdfast_m 1\n/);
  value = 2;
  assert.match(String((await get(routes)).body), /\nholdfast_m 2\n/);
});

test('a status that cannot be had is a scrape that failed, not one with zeros', async () => {
  const source = () => Promise.reject(new Error('closed'));
  assert.equal((await get(metricsRoute({ metrics: [], source }))).status, 503);
});
