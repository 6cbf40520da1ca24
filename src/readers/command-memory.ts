import type { Millis } from '../model/ids.js';
import type { WriteResult } from './driver.js';

/** An outcome as it is published and remembered: only what JSON can hold. */
export type CommandOutcome = Omit<WriteResult, 'readBack'> & {
  readonly id: string | null;
  readonly readBack?: { readonly value: unknown; readonly quality: string | number };
};

export interface BegunCommand {
  /** Wall clock; after it a repeat is refused anyway. */
  readonly validUntil: number;
  /** Null: it was begun, and the program ended before it knew more. */
  readonly outcome: CommandOutcome | null;
}

/**
 * What survives a restart, so that a command is carried out at most once by all lives of the program together. Keys are
 * whatever `CommandDesk` makes of asset, metric and id.
 */
export interface CommandMemory {
  /** A command issued before this may have been carried out without a trace here. */
  readonly completeSince: Millis;
  /** What earlier lives began and did not forget. */
  readonly begun: ReadonlyMap<string, BegunCommand>;
  /** Resolves when it is durable that the command is begun; rejects when it is not, and then nothing may be sent. */
  begin(key: string, validUntil: number): Promise<void>;
  end(key: string, command: BegunCommand): void;
  /** It can no longer come again in time. */
  forget(key: string): void;
}
