/** Who may come in and what they may do. Files of passwords and access rules plug in here. */

export interface Entrance {
  /** The listener takes clients without credentials. */
  readonly anonymousAllowed: boolean;
  /** Where the client comes from, for what is counted by address. */
  readonly address: string;
}

export interface Credentials extends Entrance {
  readonly clientId: string;
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
}

export interface Principal {
  /** Null: anonymous. */
  readonly user: string | null;
  readonly clientId: string;
}

export interface Access {
  /** Who it is, or null when the client may not come in. */
  authenticate(credentials: Credentials): Promise<Principal | null>;
  /** Asked for every PUBLISH: must be fast. */
  mayPublish(principal: Principal, topic: string): boolean;
  /** `filter` is the inner one of a shared subscription. */
  maySubscribe(principal: Principal, filter: string): boolean;
}

/** Without a password file only listeners that say so let anybody in; a name is then no proof of anything. */
export const anonymousAccess: Access = {
  authenticate: async ({ clientId, anonymousAllowed }) => (anonymousAllowed ? { user: null, clientId } : null),
  mayPublish: () => true,
  maySubscribe: () => true,
};
