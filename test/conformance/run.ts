import type { TestContext } from 'node:test';
import { Bench, type Clause, type Version } from './clause.js';
import { connecting } from './connecting.js';
import { publishing } from './publishing.js';
import { sessions } from './sessions.js';
import { subscribing } from './subscribing.js';

const CLAUSES: readonly Clause[] = [...connecting, ...publishing, ...subscribing, ...sessions];
const VERSIONS: readonly [Version, 'v4' | 'v5', string][] = [
  [4, 'v4', '3.1.1'],
  [5, 'v5', '5'],
];

/** Tries every clause against the broker on `port`. What `deviation` gives a reason for is tried and may fail. */
export async function tryClauses(
  t: TestContext,
  port: number,
  deviation: (clause: Clause) => string | undefined = () => undefined,
): Promise<void> {
  const tests: Promise<void>[] = [];
  for (const clause of CLAUSES) {
    for (const [version, key, standard] of VERSIONS) {
      const ids = clause[key];
      if (!ids) continue;
      const numbers = ids.split(' ').map((id) => `[MQTT-${id}]`);
      const title = `${numbers.join(' ')} ${clause.what} (MQTT ${standard})`;
      const name = `c${tests.length}`;
      const todo = deviation(clause);
      tests.push(t.test(title, todo ? { todo } : {}, (t) => clause.run(new Bench(t, port, version, name))));
    }
  }
  await Promise.all(tests);
}
