import Database from 'better-sqlite3';
import { SqliteRecords } from '../../src/ingest/sqlite-records.js';
import { openHistorian, stoppedClock } from '../helpers/historian.js';
import { reconcileCases } from '../helpers/reconcile-cases.js';

reconcileCases('SQLite', {
  skip: false,
  async open(t) {
    const { historian, path } = await openHistorian(t);
    const records = SqliteRecords.open(path);
    t.after(() => records.close());
    const run = async (sql: string, ...params: number[]) => {
      const db = new Database(path);
      db.prepare(sql).run(...params);
      db.close();
    };
    const clock = { ...stoppedClock, now: () => (stoppedClock.now() + 2 * 86_400_000) as never };
    return {
      historian,
      records,
      later: async () => (await openHistorian(t, { path, clock })).historian,
      remove: (seq) => run('DELETE FROM readings WHERE seq = ?', seq),
      renumber: (from, to) => run('UPDATE readings SET seq = ? WHERE seq = ?', to, from),
    };
  },
});
