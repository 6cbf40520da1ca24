import type { Directive } from './conf-file.js';

/** `kept`: means the same. `changed`: works in another way, which the message tells. `unsupported`: is not there. */
export type Outcome = 'kept' | 'changed' | 'unsupported';

export interface Note {
  readonly outcome: Outcome;
  /** Null: what Mosquitto does where nothing is said. */
  readonly file: string | null;
  readonly line: number | null;
  readonly directive: string;
  readonly message: string;
}

/** Values of these never appear in a table that people send around. */
const SECRET = /password$|psk$/;

/** What has become of every line. */
export class Notes {
  readonly all: Note[] = [];

  kept(directive: Directive, message: string): void {
    this.add('kept', directive, message);
  }

  changed(directive: Directive, message: string): void {
    this.add('changed', directive, message);
  }

  unsupported(directive: Directive, message: string): void {
    this.add('unsupported', directive, message);
  }

  /** Where nothing is said, and that means something else here. */
  byDefault(name: string, message: string): void {
    this.all.push({ outcome: 'changed', file: null, line: null, directive: `(no ${name})`, message });
  }

  add(outcome: Outcome, { file, line, name, value }: Directive, message: string): void {
    const shown = SECRET.test(name) ? '…' : value;
    this.all.push({ outcome, file, line, directive: shown === '' ? name : `${name} ${shown}`, message });
  }
}
