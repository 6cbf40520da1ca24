import { messageOf } from '../lib/errors.js';

/** What the simulators have in common for whoever drives them from outside. */
export interface Controllable {
  stats(): object;
  /** Resolves with all switches when the change is in force. */
  set(patch: object): Promise<object>;
  /** Resets every open connection. */
  reset(): void;
}

/**
 * Obeys one command line and gives the line that answers it: `{"stats":true}`, `{"set":{…}}` or `{"reset":true}`. Never
 * throws: a wrong command is answered with `{"error":"…"}` and changes nothing.
 */
export async function obey(target: Controllable, line: string): Promise<string> {
  try {
    const command = JSON.parse(line) as Record<string, unknown> | null;
    if (command?.stats === true) return JSON.stringify({ stats: target.stats() });
    if (command?.reset === true) {
      target.reset();
      return JSON.stringify({ reset: true });
    }
    if (typeof command?.set === 'object' && command.set) return JSON.stringify({ set: await target.set(command.set) });
    return JSON.stringify({ error: 'Not a command; known are {"stats":true}, {"set":{…}} and {"reset":true}' });
  } catch (error) {
    return JSON.stringify({ error: messageOf(error) });
  }
}
