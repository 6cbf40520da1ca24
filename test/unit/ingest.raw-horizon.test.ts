import { ask, openHistorian } from '../helpers/historian.js';
import { horizonCases } from '../helpers/horizon-cases.js';

horizonCases('SQLite', false, async (t, rawHorizonMs) => {
  const { historian, path } = await openHistorian(t, { rawHorizonMs });
  const count = async (table: string) => Number(ask(path, `SELECT sum(n) AS n FROM (${table})`)[0]?.n);
  return {
    historian,
    readings: () => count('SELECT count(*) AS n FROM readings'),
    rolled: () => count('SELECT readings AS n FROM sensor_readings_1h'),
  };
});
