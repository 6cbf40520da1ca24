/** The password hashes of Mosquitto's password files [mosquitto_passwd(1)]. */
import { createHash, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { assertNever } from '../lib/assert.js';
import { ARGON2_BYTES, ARGON2_COST, type Argon2Hash, deriveArgon2, formatArgon2, parseArgon2 } from './argon2.js';

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
/** What one KiB of Argon2 costs, in iterations of PBKDF2: only to find the slowest entry of a file. */
const ITERATIONS_PER_KIB = 4;

export type PasswordHash =
  /** One round over password and salt, as Mosquitto up to 1.6. */
  | { readonly kind: 'sha512'; readonly salt: Buffer; readonly hash: Buffer }
  | { readonly kind: 'pbkdf2'; readonly iterations: number; readonly salt: Buffer; readonly hash: Buffer }
  | Argon2Hash;

/** What stands behind the colon, or in words why it is no hash. The text is not repeated: it may be a password. */
export function parseHash(text: string): PasswordHash | string {
  const [before, kind, ...fields] = text.split('$');
  if (before !== '' || kind === undefined)
    return 'the password is not hashed; set it with holdfast passwd, or hash the file with mosquitto_passwd -U';
  if (kind === 'argon2id') return parseArgon2(fields);
  if (kind !== '6' && kind !== '7') return 'unknown kind of hash; known are $6$, $7$ and $argon2id$';
  const iterations = kind === '7' ? Number(fields.shift()) : null;
  if (iterations !== null && !(Number.isInteger(iterations) && iterations >= 1 && iterations <= ITERATIONS_MAX))
    return `the iterations must be a whole number from 1 to ${ITERATIONS_MAX}`;
  const [salt, hash, ...rest] = fields.map(fromBase64);
  if (!salt || !hash || rest.length > 0) return 'the hash is incomplete or not base64';
  if (!SALT_BYTES_KNOWN.includes(salt.length)) return `the salt has ${salt.length} bytes, expected 12 or 64`;
  if (hash.length !== HASH_BYTES) return `the hash has ${hash.length} bytes, expected ${HASH_BYTES}`;
  return iterations === null ? { kind: 'sha512', salt, hash } : { kind: 'pbkdf2', iterations, salt, hash };
}

/** Takes time for all but the oldest kind, outside this thread. Rejects when it could not be worked out. */
export async function verify(wanted: PasswordHash, password: Buffer): Promise<boolean> {
  // The library takes no empty one for argon2id. It is hashed nevertheless, so that the time of the answer does not tell.
  const isImpossible = wanted.kind === 'argon2id' && password.length === 0;
  const hash = await hashOf(wanted, isImpossible ? Buffer.alloc(1) : password);
  return timingSafeEqual(hash, wanted.hash) && !isImpossible;
}

/** A line's hash with a new salt, by PBKDF2, which every Mosquitto since 2.0 reads. */
export async function newHash(password: string, iterations = ITERATIONS_DEFAULT): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, iterations, HASH_BYTES, 'sha512');
  return `$7$${iterations}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

/** The same by argon2id, which Mosquitto reads from 2.1 on where it was built with it. */
export async function newArgon2Hash(password: string): Promise<string> {
  const salt = randomBytes(ARGON2_BYTES);
  const hash = Buffer.from(await deriveArgon2(Buffer.from(password), salt, ARGON2_COST, ARGON2_BYTES));
  return formatArgon2({ kind: 'argon2id', ...ARGON2_COST, salt, hash });
}

/** For a user who does not exist: takes as long as the slowest of these, and is never right. */
export function decoyOf(hashes: Iterable<PasswordHash>): PasswordHash {
  let slowest: PasswordHash = { kind: 'sha512', salt: randomBytes(SALT_BYTES), hash: randomBytes(HASH_BYTES) };
  for (const hash of hashes) if (workOf(hash) > workOf(slowest)) slowest = hash;
  return { ...slowest, salt: randomBytes(slowest.salt.length), hash: randomBytes(slowest.hash.length) };
}

async function hashOf(wanted: PasswordHash, password: Buffer): Promise<Uint8Array> {
  const { salt } = wanted;
  switch (wanted.kind) {
    case 'sha512':
      return createHash('sha512').update(password).update(salt).digest();
    case 'pbkdf2':
      return derive(password, salt, wanted.iterations, HASH_BYTES, 'sha512');
    case 'argon2id':
      return deriveArgon2(password, salt, wanted, wanted.hash.length);
    default:
      return assertNever(wanted, 'kind of hash');
  }
}

function workOf(hash: PasswordHash): number {
  if (hash.kind === 'argon2id') return hash.memoryKiB * hash.passes * ITERATIONS_PER_KIB;
  return hash.kind === 'pbkdf2' ? hash.iterations : 0;
}

function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  // Node skips what is no base64; a hash that has lost a character must not pass as a shorter one.
  return bytes.length > 0 && bytes.toString('base64') === text ? bytes : undefined;
}
