import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refuseLossy } from '../../src/ingest/timescale.js';

test('versions of TimescaleDB that can lose rows are refused, those after them are not', () => {
  for (const version of ['1.7.5', '2.9.3', '2.17.2', '2.18.0', '2.18.0-dev', ''])
    assert.throws(() => refuseLossy(version), { code: 'historian.version' }, version);
  for (const version of ['2.18.1', '2.19.3', '2.28.3', '2.29.0-rc1', '3.0.0']) refuseLossy(version);
});
