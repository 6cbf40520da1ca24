/**
 * The error catalogue. Every error that reaches an operator carries a stable code, the values involved, its cause and,
 * where there is one, what to do about it. `exit` is the sysexits code the process ends with when the error is final.
 */
export const EXIT = {
  ok: 0,
  finding: 1,
  usage: 64,
  data: 65,
  unavailable: 69,
  internal: 70,
  io: 74,
  config: 78,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const CATALOGUE = {
  'config.invalid': EXIT.config,
  'usage.invalid': EXIT.usage,
  'spool.locked': EXIT.unavailable,
  'spool.version': EXIT.data,
  'spool.not-durable': EXIT.io,
  'spool.io': EXIT.io,
  'spool.full': EXIT.io,
  'spool.busy': EXIT.unavailable,
  'spool.damaged': EXIT.data,
  'spool.refused': EXIT.io,
  'spool.closed': EXIT.internal,
  'spool.constraint': EXIT.internal,
  'wire.malformed': EXIT.data,
  'wire.version': EXIT.data,
  'historian.io': EXIT.io,
  'historian.version': EXIT.data,
  'historian.rejected': EXIT.data,
  'historian.closed': EXIT.internal,
  'upstream.refused': EXIT.unavailable,
  'upstream.lost': EXIT.unavailable,
  'upstream.rejected': EXIT.data,
  'listen.failed': EXIT.unavailable,
  'sim.io': EXIT.io,
  'device.timeout': EXIT.unavailable,
  'device.exception': EXIT.unavailable,
  'device.protocol': EXIT.unavailable,
  'device.link': EXIT.unavailable,
  'internal.assertion': EXIT.internal,
} as const satisfies Record<string, ExitCode>;
export type ErrorCode = keyof typeof CATALOGUE;

export interface ErrorDetails {
  readonly values?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
  /** What an operator can do about it, as one sentence. */
  readonly hint?: string;
}

export class HoldfastError extends Error {
  readonly code: ErrorCode;
  readonly values: Readonly<Record<string, unknown>>;
  readonly hint: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'HoldfastError';
    this.code = code;
    this.values = details.values ?? {};
    this.hint = details.hint;
  }

  get exit(): ExitCode {
    return CATALOGUE[this.code];
  }
}

/** The message of anything that was thrown; never throws itself. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The Node or SQLite code of an error (`ECONNREFUSED`, `SQLITE_FULL`), or undefined. */
export function systemCodeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}
