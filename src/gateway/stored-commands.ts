import type { Clock } from '../lib/clock.js';
import type { Millis } from '../model/ids.js';
import type { BegunCommand, CommandMemory } from '../readers/command-memory.js';
import type { Store } from '../store/store.js';
import type { CommandRow } from './command-tables.js';

/** The memory of commands in the gateway's one file. */
export class StoredCommands implements CommandMemory {
  static readonly tables = new URL('./command-tables.js', import.meta.url);
  readonly completeSince: Millis;
  readonly begun: ReadonlyMap<string, BegunCommand>;

  private readonly store: Store;
  private readonly put: number;
  private readonly delete: number;

  private constructor(store: Store, completeSince: Millis, begun: ReadonlyMap<string, BegunCommand>) {
    this.store = store;
    this.completeSince = completeSince;
    this.begun = begun;
    this.put = store.operation('commands.put');
    this.delete = store.operation('commands.delete');
  }

  static async open(store: Store, clock: Clock): Promise<StoredCommands> {
    const known = await store.query<Millis | undefined>('commands.since');
    const since = known ?? clock.now();
    // Not waited for: on a full device it would hold up the start, and a later beginning only makes it more careful.
    if (known === undefined) store.submit([{ op: store.operation('commands.begin'), args: [since] }], () => {});
    const rows = await store.query<CommandRow[]>('commands.all');
    const begun = rows.map(([key, validUntil, outcome]): [string, BegunCommand] => [
      key,
      { validUntil, outcome: outcome === null ? null : JSON.parse(outcome) },
    ]);
    return new StoredCommands(store, since, new Map(begun));
  }

  async begin(key: string, validUntil: number): Promise<void> {
    await this.store.commit([{ op: this.put, args: [key, validUntil, null] }]);
  }

  /** Durable before whatever is published after it, since both go through the same file in this order. */
  end(key: string, { validUntil, outcome }: BegunCommand): void {
    this.store.submit([{ op: this.put, args: [key, validUntil, JSON.stringify(outcome)] }], () => {});
  }

  forget(key: string): void {
    this.store.ride({ op: this.delete, args: [key] });
  }
}
