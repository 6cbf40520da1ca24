import { PostgresRecords } from '../../src/ingest/postgres-records.js';
import { stoppedClock } from '../helpers/historian.js';
import { openPostgres, skipPostgres } from '../helpers/postgres.js';
import { reconcileCases } from '../helpers/reconcile-cases.js';

reconcileCases('PostgreSQL', {
  skip: skipPostgres,
  async open(t) {
    const { historian, url, sql } = await openPostgres(t);
    const records = await PostgresRecords.open({ url });
    t.after(() => records.close());
    const clock = { ...stoppedClock, now: () => (stoppedClock.now() + 2 * 86_400_000) as never };
    return {
      historian,
      records,
      later: async () => (await openPostgres(t, { url, clock })).historian,
      remove: async (seq) => void (await sql('DELETE FROM holdfast.readings WHERE seq = $1', seq)),
      renumber: async (from, to) => void (await sql('UPDATE holdfast.readings SET seq = $1 WHERE seq = $2', to, from)),
    };
  },
});
