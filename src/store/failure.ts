import { messageOf, systemCodeOf } from '../lib/errors.js';
import type { Failure } from './protocol.js';

/** Codes after which the file must not be written again: what reached the device is unknown. */
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM)/;

export function describe(error: unknown): Failure {
  return { code: systemCodeOf(error) ?? 'ERROR', message: messageOf(error) };
}

export function isFatal({ code }: Failure): boolean {
  return FATAL.test(code);
}
