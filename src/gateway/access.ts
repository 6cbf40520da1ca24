/** Who may do what on the plant's broker, as the config says; and the same questions without a broker, for the commands. */
import { type Access, anonymousAccess } from '../broker/access.js';
import { AccessFiles } from '../broker/access-files.js';
import { Acl, type Decision, READ, WRITE } from '../broker/acl-file.js';
import { allOrProblems, type LineProblem } from '../broker/line-problem.js';
import { changePassword } from '../broker/password-file.js';
import { newArgon2Hash, newHash } from '../broker/password-hash.js';
import { readTls } from '../broker/tls-files.js';
import { isReserved, isValidFilter, sharedParts, WIDEST_TOPIC } from '../broker/topics.js';
import type { GatewayConfig } from '../config/gateway-schema.js';
import type { Problem } from '../config/problem.js';
import { type Clock, systemClock } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';
import { type Log, silentLog } from '../lib/log.js';

type BrokerConfig = GatewayConfig['broker'];

/** Throws `config.invalid` with all that is wrong with the files that the config names, those of the listeners included. */
export async function openAccess(config: BrokerConfig, clock: Clock, log: Log): Promise<Access> {
  const { passwordFile, aclFile, refuseDeniedFilters, listeners } = config;
  const certificates = listeners.flatMap(({ tls }) => (tls ? [readTls(tls)] : []));
  const isOpen = passwordFile === undefined && aclFile === undefined;
  const files = { passwordFile, aclFile, refuseDeniedFilters, clock, log };
  const access = isOpen ? Promise.resolve(anonymousAccess) : AccessFiles.open(files);
  await allOrProblems<unknown>('files that the config names are not valid', [access, ...certificates]);
  return access;
}

/** What is wrong with the files that a config names: they are not looked at when the config itself is read. */
export async function accessProblems(config: BrokerConfig): Promise<Problem[]> {
  try {
    await openAccess(config, systemClock, silentLog);
    return [];
  } catch (error) {
    if (!(error instanceof HoldfastError && Array.isArray(error.values.problems))) throw error;
    const problems = error.values.problems as LineProblem[];
    return problems.map((problem) => ({ ...problem, col: null, path: '', severity: 'error' }));
  }
}

export interface AccessQuestion {
  readonly aclFile: string;
  /** Undefined: anonymous. */
  readonly user: string | undefined;
  readonly clientId: string;
  /** Of `subscribe` a filter. */
  readonly topic: string;
  readonly action: 'read' | 'write' | 'subscribe';
}

/** What the ACL file answers, and which line does. Throws `config.invalid`, `usage.invalid` for what is no filter. */
export async function explainAccess(question: AccessQuestion): Promise<Decision> {
  const { aclFile, user = null, clientId, topic, action } = question;
  const acl = await Acl.read(aclFile);
  if (action === 'write' && isReserved(topic))
    return { allowed: false, rule: null, reason: 'topics that begin with $ are written by the broker alone' };
  if (action === 'subscribe') {
    if (!isValidFilter(topic, WIDEST_TOPIC))
      throw new HoldfastError('usage.invalid', `${JSON.stringify(topic)} is no topic filter`);
    return acl.decideFilter({ user, clientId }, sharedParts(topic)?.inner ?? topic);
  }
  return acl.decide({ user, clientId }, action === 'read' ? READ : WRITE, topic);
}

/** Which hash a password is kept as: the one that every Mosquitto since 2.0 reads, or the one for 2.1. */
export type NewHash = { readonly kind: 'sha512-pbkdf2'; readonly iterations?: number } | { readonly kind: 'argon2id' };

/** Creates the file where there is none. Throws `usage.invalid`. */
export async function setPassword(file: string, user: string, password: string, hash: NewHash): Promise<void> {
  const text = hash.kind === 'argon2id' ? newArgon2Hash(password) : newHash(password, hash.iterations);
  await changePassword(file, user, await text);
}

/** False when the file does not have the user. */
export async function deletePassword(file: string, user: string): Promise<boolean> {
  return changePassword(file, user, null);
}
