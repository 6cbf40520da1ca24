/** Defect: at a start the sequence goes on from the rows that are left, as without AUTOINCREMENT. */
import SQLite, { type Database } from 'better-sqlite3';

const { prototype } = SQLite as unknown as { prototype: Database };
const { exec } = prototype;
prototype.exec = function (source) {
  exec.call(this, source);
  const isStart = source.startsWith('CREATE TABLE IF NOT EXISTS store_meta');
  if (isStart && this.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'spool'").get())
    exec.call(this, "UPDATE sqlite_sequence SET seq = (SELECT ifnull(max(seq), 0) FROM spool) WHERE name = 'spool'");
  return this;
};
