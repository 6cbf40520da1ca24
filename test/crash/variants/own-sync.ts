/**
 * Lets a variant sync the log itself, next to the commits instead of in them: one fsync after the other, each on its way
 * while commits go on. `covers` decides which fsync is good enough for a commit.
 */
import { closeSync, fsync, openSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { Store, type StoreOptions } from '../../../src/store/store.js';
import { replacePragma } from './pragmas.js';

interface Waiting {
  readonly done: () => void;
  /** Number of the fsync that was on its way when the commit returned. */
  readonly running: number;
}

export function syncBeside(covers: (sync: number, running: number) => boolean): void {
  replacePragma(/^synchronous =/, 'synchronous = NORMAL', { name: 'synchronous', value: 2 });
  if (!isMainThread) return;
  let waiting: Waiting[] = [];
  let sync = 0;
  const loop = (path: string): void => {
    sync++;
    const log = openSync(`${path}-wal`, 'r+');
    fsync(log, () => {
      closeSync(log);
      const ready = waiting.filter(({ running }) => covers(sync, running));
      waiting = waiting.filter((it) => !ready.includes(it));
      for (const { done } of ready) done();
      setImmediate(() => loop(path));
    });
  };
  const { open } = Store;
  Store.open = async (options: StoreOptions) => {
    const store = await open.call(Store, options);
    loop(options.path);
    return store;
  };
  const { submit } = Store.prototype;
  Store.prototype.submit = function (unit, done) {
    submit.call(this, unit, (error, results, at) => {
      waiting.push({ running: sync, done: () => done(error, results, at) });
    });
  };
}
