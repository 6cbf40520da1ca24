import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Epoch } from '../../src/model/ids.js';
import { sampleOf } from '../../src/web/sampler.js';
import { gatewayStatus } from '../helpers/gateway-status.js';

const before = gatewayStatus({ spool: { received: 1_000, acknowledged: 900 } });

test('rates are rows per second over the time really passed', () => {
  const status = gatewayStatus({ spool: { received: 1_100, acknowledged: 1_025, rows: 75 } });
  const sample = sampleOf(status, before, 2_500);
  assert.equal(sample.receivedPerS, 40);
  assert.equal(sample.acknowledgedPerS, 50);
  assert.equal(sample.rows, 75);
});

test('the first sample has no rates', () => {
  assert.ok(Number.isNaN(sampleOf(before, undefined, 0).receivedPerS));
});

test('a new spool file has no rates against the old one', () => {
  const status = gatewayStatus({ spool: { epoch: 'another' as Epoch, received: 5, acknowledged: 0 } });
  assert.ok(Number.isNaN(sampleOf(status, before, 1_000).receivedPerS));
});
