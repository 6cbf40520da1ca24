import { horizonCases } from '../helpers/horizon-cases.js';
import { openPostgres, skipPostgres } from '../helpers/postgres.js';

horizonCases('PostgreSQL', skipPostgres, async (t, rawHorizonMs) => {
  const { historian, sql } = await openPostgres(t, { rawHorizonMs });
  const count = async (table: string) => Number((await sql(`SELECT sum(n) AS n FROM (${table}) AS t`))[0]?.n);
  return {
    historian,
    readings: () => count('SELECT count(*) AS n FROM holdfast.readings'),
    rolled: () => count('SELECT readings AS n FROM holdfast.sensor_readings_1h'),
  };
});
