import { test } from 'node:test';
import { ARRIVALS, arrives, RAW_HORIZON_MS } from '../helpers/arrival-cases.js';
import { ask, openHistorian } from '../helpers/historian.js';

for (const one of ARRIVALS)
  test(one.name, async (t) => {
    const { historian, path } = await openHistorian(t, { rawHorizonMs: RAW_HORIZON_MS });
    const list = (sql: string) => ask<Record<string, never>>(path, sql).map((row) => Object.values(row));
    await arrives(one, historian, async () => ({
      values: list('SELECT value FROM readings ORDER BY device_ts').flat(),
      conflicts: list('SELECT value FROM conflicts ORDER BY device_ts, source_id').flat(),
      aside: list('SELECT seq, reason FROM quarantine ORDER BY seq') as never,
      hours: list('SELECT bucket, readings, sum FROM sensor_readings_1h ORDER BY bucket') as never,
    }));
  });
