/**
 * Access by Mosquitto's password and ACL files. Both are read whole before either takes effect, and a file with one bad
 * line is not used at all: the broker does not start with it, and goes on with what it has when that happens at a reload.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../lib/clock.js';
import { type Log, RateLimit } from '../lib/log.js';
import { type Access, type Credentials, type Principal, type Revoked, withoutPassword } from './access.js';
import { Acl, READ, WRITE } from './acl-file.js';
import { Decisions } from './decisions.js';
import { allOrProblems } from './line-problem.js';
import { LoginGuard } from './login-guard.js';
import { type Passwords, readPasswords } from './password-file.js';
import { decoyOf, type PasswordHash, verify } from './password-hash.js';

export interface AccessFilesOptions {
  readonly passwordFile: string | undefined;
  readonly aclFile: string | undefined;
  /** Refuse a subscription that the rules let nothing through to, instead of granting it as Mosquitto does. */
  readonly refuseDeniedFilters?: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

interface Contents {
  readonly passwords: Passwords | null;
  /** Null: everybody may do everything. */
  readonly rules: Decisions | null;
  /** Checked in place of a user who does not exist, so that the time of the answer does not tell. */
  readonly decoy: PasswordHash;
  /** By user: passwords that were right, hashed under a key of this process, so that coming back costs next to nothing. */
  readonly right: Map<string, Buffer>;
}

export class AccessFiles implements Access {
  private readonly options: AccessFilesOptions;
  private readonly guard: LoginGuard;
  private readonly complaints = new RateLimit();
  private readonly key = randomBytes(32);
  private contents: Contents;

  private constructor(options: AccessFilesOptions, contents: Contents) {
    this.options = options;
    this.guard = new LoginGuard(options.clock);
    this.contents = contents;
  }

  /** Throws `config.invalid` with every bad line of both files. */
  static async open(options: AccessFilesOptions): Promise<AccessFiles> {
    return new AccessFiles(options, await read(options));
  }

  async authenticate(credentials: Credentials): Promise<Principal | null> {
    const { passwords } = this.contents;
    const answer = withoutPassword(credentials, passwords !== null);
    const principal = answer === undefined ? await this.checkPassword(credentials) : answer;
    if (!principal && !credentials.isGone()) this.complain(credentials);
    return principal;
  }

  mayPublish(principal: Principal, topic: string): boolean {
    return this.contents.rules?.allows(principal, WRITE, topic) ?? true;
  }

  /** Always, as by Mosquitto, unless configured: what may not be read is not delivered in any case. */
  maySubscribe(principal: Principal, filter: string): boolean {
    if (!this.options.refuseDeniedFilters) return true;
    return this.contents.rules?.allowsFilter(principal, filter) ?? true;
  }

  mayReceive(principal: Principal, topic: string): boolean {
    return this.contents.rules?.allows(principal, READ, topic) ?? true;
  }

  async prepare(): Promise<() => Revoked> {
    const contents = await read(this.options);
    return () => {
      const before = this.contents.passwords;
      this.contents = contents;
      return (user) => user !== null && before?.get(user)?.text !== contents.passwords?.get(user)?.text;
    };
  }

  private async checkPassword(credentials: Credentials): Promise<Principal | null> {
    const { username, password, clientId, address } = credentials;
    const user = username as string;
    if (password === undefined) return null;
    const { passwords, right, decoy } = this.contents;
    const entry = passwords?.get(user);
    const digest = createHmac('sha256', this.key).update(password).digest();
    const known = right.get(user);
    if (!(known && timingSafeEqual(known, digest))) {
      const isRight = await this.guard.run(
        address,
        () => credentials.isGone(),
        async () => (await verify(entry?.hash ?? decoy, password)) && entry !== undefined,
      );
      // The files may have been read anew meanwhile.
      if (!isRight || this.contents.passwords?.get(user)?.text !== entry?.text) return null;
      right.set(user, digest);
    }
    return { user, clientId };
  }

  private complain({ address, clientId, username, certificateUser }: Credentials): void {
    const heldBack = this.complaints.pass(address);
    if (heldBack === undefined) return;
    const user = certificateUser === undefined ? username : certificateUser;
    this.options.log.warn({ address, client: clientId, user, heldBack }, 'A client was not let in');
  }
}

async function read({ passwordFile, aclFile }: AccessFilesOptions): Promise<Contents> {
  let passwords: Passwords | null = null;
  let rules: Decisions | null = null;
  await allOrProblems('the access files are not valid', [
    (async () => {
      if (passwordFile !== undefined) passwords = await readPasswords(passwordFile);
    })(),
    (async () => {
      if (aclFile !== undefined) rules = new Decisions(await Acl.read(aclFile));
    })(),
  ]);
  const hashes = [...((passwords as Passwords | null)?.values() ?? [])].map(({ hash }) => hash);
  return { passwords, rules, decoy: decoyOf(hashes), right: new Map() };
}
