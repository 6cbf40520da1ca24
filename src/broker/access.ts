/** Who may come in and what they may do. Files of passwords and access rules plug in here (`access-files.ts`). */

/** What the door knows of a client before it has said anything. */
export interface Entrance {
  /** The listener takes clients without credentials. */
  readonly anonymousAllowed: boolean;
  /** Where the client comes from, for what is counted by address. */
  readonly address: string;
  /** The user that its certificate names, null when it names none; undefined where certificates name no users. */
  readonly certificateUser: string | null | undefined;
}

export interface Credentials extends Entrance {
  readonly clientId: string;
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
  /** The client did not wait for the answer, so that there is no need to work it out. */
  isGone(): boolean;
}

export interface Principal {
  /** Null: anonymous. */
  readonly user: string | null;
  readonly clientId: string;
}

/** Users whose right to be here has ended. */
export type Revoked = (user: string | null) => boolean;

export interface Access {
  /** Who it is, or null when the client may not come in. Throws ProtocolError when it should ask again later. */
  authenticate(credentials: Credentials): Promise<Principal | null>;
  /** Asked for every PUBLISH: must be fast. */
  mayPublish(principal: Principal, topic: string): boolean;
  /** `filter` is the inner one of a shared subscription. */
  maySubscribe(principal: Principal, filter: string): boolean;
  /** Asked for every message that goes to a subscriber: must be fast. */
  mayReceive(principal: Principal, topic: string): boolean;
  /**
   * Reads anew what the answers are based on. They change only when the returned function is called; throws
   * `config.invalid` when what was read cannot be used.
   */
  prepare(): Promise<() => Revoked>;
}

const NOBODY: Revoked = () => false;

/** Without a password file only listeners that say so let anybody in; a name is then no proof of anything. */
export const anonymousAccess: Access = {
  authenticate: async (credentials) => withoutPassword(credentials) ?? null,
  mayPublish: () => true,
  maySubscribe: () => true,
  mayReceive: () => true,
  prepare: async () => () => NOBODY,
};

/** The answer where it does not depend on a password; undefined where it does. */
export function withoutPassword(credentials: Credentials, hasPasswords = false): Principal | null | undefined {
  const { clientId, username, anonymousAllowed, certificateUser } = credentials;
  // An empty name is none, as for Mosquitto.
  if (certificateUser !== undefined) return certificateUser === null ? null : { user: certificateUser, clientId };
  if (hasPasswords && username) return undefined;
  return anonymousAllowed ? { user: null, clientId } : null;
}
