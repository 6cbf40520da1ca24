/** The broker's operations as functions that build them; the SQL behind each is in `tables.ts`. */
import type { Store } from '../store/store.js';
import type { Op, Value } from '../store/tables.js';

const NAMES = [
  'retainedPut',
  'retainedDelete',
  'sessionPut',
  'sessionDelete',
  'subscriptionPut',
  'subscriptionDelete',
  'outgoingPut',
  'outgoingPacketId',
  'outgoingRelease',
  'outgoingExpire',
  'outgoingExpiring',
  'outgoingOldest',
  'outgoingDropOldest',
  'outgoingDelete',
  'incomingPut',
  'incomingDelete',
  'willPut',
  'willDelete',
] as const;

export type Statements = Readonly<Record<(typeof NAMES)[number], (...args: Value[]) => Op>>;

export function statementsOf(store: Store): Statements {
  const build = (name: string) => {
    const op = store.operation(`broker.${name}`);
    return (...args: Value[]): Op => ({ op, args });
  };
  return Object.fromEntries(NAMES.map((name) => [name, build(name)])) as Statements;
}
