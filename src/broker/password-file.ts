/**
 * Mosquitto's `password_file`: one `user:hash` a line, `#` in the first column for comments. Stricter than Mosquitto 2.0,
 * which removes bad lines and goes on: here a file with one is not used at all, and every bad line is told.
 */
import { randomBytes } from 'node:crypto';
import { chmod, chown, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { type LineProblem, readText, refused } from './line-problem.js';
import { type PasswordHash, parseHash } from './password-hash.js';

export interface PasswordEntry {
  readonly hash: PasswordHash;
  /** The hash as it stands in the file: equal texts are the same password. */
  readonly text: string;
}
export type Passwords = ReadonlyMap<string, PasswordEntry>;

/** [MQTT-1.5.4]: a string of the protocol has no more. */
const USER_BYTES_MAX = 65_535;
/** A new file is its owner's alone. */
const NEW_FILE_MODE = 0o600;

/** Throws `config.invalid` with every bad line. */
export async function readPasswords(file: string): Promise<Passwords> {
  const entries = new Map<string, PasswordEntry>();
  const problems: LineProblem[] = [];
  for (const [index, line] of (await readText(file)).split('\n').entries()) {
    const result = parseLine(line);
    if (result === null) continue;
    const message = typeof result === 'string' ? result : entries.has(result.user) ? 'the user is already above' : '';
    if (message) problems.push({ file, line: index + 1, message });
    else if (typeof result === 'object') entries.set(result.user, result);
  }
  if (problems.length > 0) throw refused('the password file is not valid', problems);
  return entries;
}

/**
 * Writes, changes or removes (`hash` null) one user, and leaves all other lines as they are. The file is replaced in one
 * step and keeps its owner and mode; a broker that reads it meanwhile sees the old or the new one. Returns false when
 * there was nobody to remove. Throws `usage.invalid`.
 */
export async function changePassword(file: string, user: string, hash: string | null): Promise<boolean> {
  const fault = userFault(user);
  if (fault) throw new HoldfastError('usage.invalid', fault);
  const isNew = hash !== null && (await stat(file).catch(() => undefined)) === undefined;
  const text = isNew ? '' : await readText(file);
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n');
  const isUser = (line: string) => !line.startsWith('#') && line.includes(':') && userOf(line) === user;
  const at = lines.findIndex(isUser);
  if (at < 0 && hash === null) return false;
  if (hash === null) lines.splice(at, 1);
  else if (at >= 0) lines[at] = `${user}:${hash}`;
  else lines.push(`${user}:${hash}`);
  await replace(file, lines.map((line) => `${line}\n`).join(''));
  return true;
}

/** Null: nothing on this line; a text: what is wrong with it. */
function parseLine(line: string): (PasswordEntry & { user: string }) | string | null {
  if (line.startsWith('#') || line.trim() === '') return null;
  const [, hashText] = line.split(':', 2);
  if (hashText === undefined) return 'expected user:hash, found no colon';
  const user = userOf(line);
  const fault = userFault(user);
  if (fault) return fault;
  const text = hashText.trim();
  // An entry without a password would let in whoever knows the name.
  if (text === '') return `${JSON.stringify(user)} has no password`;
  const hash = parseHash(text);
  return typeof hash === 'string' ? hash : { user, hash, text };
}

function userOf(line: string): string {
  return line.slice(0, line.indexOf(':')).trim();
}

function userFault(user: string): string | undefined {
  if (user === '' || user !== user.trim()) return 'a user name must not be empty or have blanks around it';
  if (/[:\n\r\0]/.test(user)) return 'a user name must not contain a colon or a line end';
  if (user.startsWith('#')) return 'a user name must not begin with #: the line would be a comment';
  return Buffer.byteLength(user) > USER_BYTES_MAX ? 'the user name is too long' : undefined;
}

async function replace(file: string, text: string): Promise<void> {
  const target = await realpath(file).catch(() => file);
  const temporary = `${target}.${randomBytes(6).toString('hex')}`;
  try {
    const before = await stat(target).catch(() => undefined);
    const handle = await open(temporary, 'wx', NEW_FILE_MODE);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (before) {
      if (process.getuid?.() === 0) await chown(temporary, before.uid, before.gid);
      await chmod(temporary, before.mode & 0o777);
    }
    await rename(temporary, target);
    const folder = await open(dirname(target));
    await folder.sync().finally(() => folder.close());
  } catch (cause) {
    await rm(temporary, { force: true });
    throw new HoldfastError('usage.invalid', `Cannot write ${file}: ${messageOf(cause)}`, {
      values: { file, code: systemCodeOf(cause) },
      cause,
    });
  }
}
