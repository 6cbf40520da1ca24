import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inspect } from 'node:util';
import * as z from 'zod';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { ofKind } from './kinds.js';

const REDACTED = '<redacted>';

type SecretSource = string | { readonly file: string } | { readonly env: string } | { readonly credential: string };

/**
 * Where a secret is to be found. It never holds more than the config file did, and a literal one shows itself neither
 * as JSON nor in a log line; only `readSecret` gives it away.
 */
export class Secret {
  readonly #source: SecretSource;
  readonly #path: string;

  constructor(source: SecretSource, path = 'secret') {
    this.#source = source;
    this.#path = path;
  }

  /** Whether the secret itself stands in the config file. */
  get literal(): boolean {
    return typeof this.#source === 'string';
  }

  /** The same secret once it is known which key it belongs to and which folder its file is relative to. */
  at(path: string, folder: string): Secret {
    const source = this.#source;
    return new Secret(
      typeof source === 'object' && 'file' in source ? { file: resolve(folder, source.file) } : source,
      path,
    );
  }

  /** See `readSecret`. */
  read(): string {
    try {
      const value = lookUp(this.#source);
      if (value === '') throw new Error('it is empty');
      return value;
    } catch (cause) {
      throw new HoldfastError('config.invalid', `${this.#path}: the secret cannot be read: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  /** The source as it may be shown: everything but a literal. */
  toJSON(): unknown {
    return this.literal ? REDACTED : this.#source;
  }

  [inspect.custom](): string {
    return `Secret ${inspect(this.toJSON())}`;
  }
}

/**
 * The secret's value now, without the line end that editors leave at the end of a file. Read at every use, so that a
 * rotated secret works at the next connection. Throws `config.invalid` naming the config key, never the value.
 */
export function readSecret(secret: Secret): string {
  return secret.read();
}

const source = z.union(
  [
    z.string().min(1),
    z.strictObject({ file: z.string().min(1).describe('File that holds the secret, relative to the config file.') }),
    z.strictObject({ env: z.string().min(1).describe('Environment variable that holds the secret.') }),
    z.strictObject({
      credential: z
        .string()
        .regex(/^[^/\0]+$/, { error: 'expected the name of a credential, without a folder' })
        .describe('Name of a systemd credential, a file in $CREDENTIALS_DIRECTORY.'),
    }),
  ],
  // Without the value: a password that YAML took for a number must not end up in a log.
  {
    error: ({ input }) =>
      input === undefined
        ? undefined
        : 'expected a text (in quotes if it looks like a number) or one of {file: ...}, {env: ...}, {credential: ...}',
  },
);

/** A password: written out, or better, where it is to be found. */
export const secret = ofKind(
  'secret',
  source.transform((value) => new Secret(value)),
);

function lookUp(source: SecretSource): string {
  if (typeof source === 'string') return source;
  if ('file' in source) return readLine(source.file);
  if ('env' in source) {
    const value = process.env[source.env];
    if (value === undefined) throw new Error(`the environment variable ${source.env} is not set`);
    return withoutLineEnd(value);
  }
  const folder = process.env.CREDENTIALS_DIRECTORY;
  if (!folder) throw new Error('$CREDENTIALS_DIRECTORY is not set; systemd sets it for LoadCredential=');
  return readLine(join(folder, source.credential));
}

const readLine = (file: string) => withoutLineEnd(readFileSync(file, 'utf8'));
const withoutLineEnd = (text: string) => text.replace(/\r?\n$/, '');
