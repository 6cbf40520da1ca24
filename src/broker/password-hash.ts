/** The password hashes of Mosquitto's password files [mosquitto_passwd(1)]. */
import { createHash, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const derive = promisify(pbkdf2);

/** Mosquitto derives as many bytes as SHA-512 has. */
const HASH_BYTES = 64;
/** Mosquitto up to 2.0 reads no other salt, from 2.1 on it also writes 64 bytes. */
const SALT_BYTES = 12;
const SALT_BYTES_KNOWN: readonly number[] = [SALT_BYTES, 64];
/** Ten seconds of work for one login: beyond, a line of the file would be an attack. */
const ITERATIONS_MAX = 10_000_000;
/** A tenth of a second: slow for who guesses, and paid by a client only once, see `access-files.ts`. */
export const ITERATIONS_DEFAULT = 100_000;

export interface PasswordHash {
  /** Null: one round of SHA-512 over password and salt, as Mosquitto up to 1.6. Otherwise PBKDF2. */
  readonly iterations: number | null;
  readonly salt: Buffer;
  readonly hash: Buffer;
}

/** What stands behind the colon, or in words why it is no hash. The text is not repeated: it may be a password. */
export function parseHash(text: string): PasswordHash | string {
  const [before, kind, ...fields] = text.split('$');
  if (before !== '' || kind === undefined)
    return 'the password is not hashed; set it with holdfast passwd, or hash the file with mosquitto_passwd -U';
  if (kind.startsWith('argon2'))
    return 'argon2 hashes cannot be checked here; set the password anew with holdfast passwd, or mosquitto_passwd -H sha512-pbkdf2';
  if (kind !== '6' && kind !== '7') return 'unknown kind of hash; known are $6$ and $7$';
  const iterations = kind === '7' ? Number(fields.shift()) : null;
  if (iterations !== null && !(Number.isInteger(iterations) && iterations >= 1 && iterations <= ITERATIONS_MAX))
    return `the iterations must be a whole number from 1 to ${ITERATIONS_MAX}`;
  const [salt, hash, ...rest] = fields.map(fromBase64);
  if (!salt || !hash || rest.length > 0) return 'the hash is incomplete or not base64';
  if (!SALT_BYTES_KNOWN.includes(salt.length)) return `the salt has ${salt.length} bytes, expected 12 or 64`;
  if (hash.length !== HASH_BYTES) return `the hash has ${hash.length} bytes, expected ${HASH_BYTES}`;
  return { iterations, salt, hash };
}

/** Takes time for a hash with many iterations, outside this thread. */
export async function verify({ iterations, salt, hash }: PasswordHash, password: Buffer): Promise<boolean> {
  const given =
    iterations === null
      ? createHash('sha512').update(password).update(salt).digest()
      : await derive(password, salt, iterations, HASH_BYTES, 'sha512');
  return timingSafeEqual(given, hash);
}

/** A line's hash with a new salt that every Mosquitto since 2.0 reads. */
export async function newHash(password: string, iterations = ITERATIONS_DEFAULT): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, iterations, HASH_BYTES, 'sha512');
  return `$7$${iterations}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  // Node skips what is no base64; a hash that has lost a character must not pass as a shorter one.
  return bytes.length > 0 && bytes.toString('base64') === text ? bytes : undefined;
}
