import { checkServerIdentity as checkIdentity, type PeerCertificate } from 'node:tls';
import pg from 'pg';
import { Backoff } from '../lib/backoff.js';
import { sleep } from '../lib/clock.js';
import { readTlsFiles, type TlsFiles } from '../lib/dial.js';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';

export interface PostgresConnection {
  /** `postgres://user:password@host:port/database`, as libpq understands it. */
  readonly url: string;
  /** With it the server must prove who it is; without it the url says whether the connection is encrypted. */
  readonly tls?: TlsFiles | undefined;
}

export interface PostgresPoolOptions extends PostgresConnection {
  /** Transactions at a time. */
  readonly connections: number;
  readonly applicationName: string;
}

export type PostgresClient = Pick<pg.PoolClient, 'query'>;

/**
 * What another transaction caused and the same transaction can get past: a deadlock that this one lost, a serialization
 * failure, a lock that was not granted in time.
 */
const RETRYABLE: ReadonlySet<string> = new Set(['40P01', '40001', '55P03']);
const ATTEMPTS_MAX = 10;
const RETRY_WAIT = { minMs: 10, maxMs: 1000 };
/** Data exception, constraint violation, program limit: about the row, not about the database; it would fail for ever. */
const ABOUT_DATA = /^(22|23|54)/;

/** A batch takes milliseconds. These keep a frozen peer, a dead line or a forgotten session from holding up the others. */
const LOCK_MS_MAX = 10_000;
const STATEMENT_MS_MAX = 60_000;
const IDLE_IN_TRANSACTION_MS_MAX = 60_000;
const CONNECT_MS_MAX = 10_000;

/** Seqs, counts and milliseconds: all below 2⁵³, so numbers are exact. */
const INT8_OID = 20;
const types = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
};

/**
 * Connections to one database, and its errors in the words of the `Historian`. A connection that broke is never used
 * again; the next transaction opens another, so a database that restarts is simply there again.
 */
export class PostgresPool {
  private readonly pool: pg.Pool;
  /** Transactions that were run again because of another one. */
  retries = 0;
  private closing: Promise<void> | undefined;

  /** Throws `config.invalid`. */
  constructor({ url, tls, connections, applicationName }: PostgresPoolOptions) {
    if (tls) refuseTwoAnswers(url);
    this.pool = new pg.Pool({
      connectionString: url,
      ...(tls && { Client: tlsClient(url, tls) }),
      max: connections,
      application_name: applicationName,
      lock_timeout: LOCK_MS_MAX,
      statement_timeout: STATEMENT_MS_MAX,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
      // The server's own limit cannot reach us over a line that is dead.
      query_timeout: STATEMENT_MS_MAX + LOCK_MS_MAX,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      keepAlive: true,
      types,
    });
    // A connection that breaks is replaced when one is needed; whoever was using it learns of it from its query.
    this.pool.on('error', () => {});
    this.pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** One statement on its own. Rejects like `transaction`. */
  async query<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.retrying(async () => (await this.pool.query<Row>(text, [...values])).rows);
  }

  /**
   * What `work` returned, once its transaction is committed; it may run more than once. Rejects with `historian.rejected`
   * when its data can never be stored, with `historian.io` for everything else, and with `historian.closed`.
   */
  transaction<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    return this.retrying(() => this.attempt((client) => inTransaction(client, work), rollBack));
  }

  /**
   * What `work` returned on one connection without a transaction, for statements that bring their own. It may run more
   * than once; the connection is thrown away when it fails, and with it every lock of the session. Rejects like
   * `transaction`.
   */
  session<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    return this.retrying(() => this.attempt(work, throwAway));
  }

  /** Waits for what is running. */
  close(): Promise<void> {
    this.closing ??= this.pool.end();
    return this.closing;
  }

  private async retrying<T>(run: () => Promise<T>): Promise<T> {
    const backoff = new Backoff(RETRY_WAIT);
    for (let attempt = 1; ; attempt++) {
      if (this.closing) throw new HoldfastError('historian.closed', 'the connections to PostgreSQL are closed');
      try {
        return await run();
      } catch (error) {
        if (!RETRYABLE.has(systemCodeOf(error) ?? '') || attempt === ATTEMPTS_MAX) throw postgresError(error);
        this.retries++;
        await sleep(backoff.next());
      }
    }
  }

  private async attempt<T>(
    work: (client: PostgresClient) => Promise<T>,
    undo: (client: PostgresClient) => Promise<unknown>,
  ): Promise<T> {
    const client = await this.pool.connect();
    let broken: Error | undefined;
    try {
      return await work(client);
    } catch (error) {
      await undo(client).catch((cause: Error) => {
        broken = cause;
      });
      throw error;
    } finally {
      client.release(broken);
    }
  }
}

const rollBack = (client: PostgresClient) => client.query('ROLLBACK');
const throwAway = () => Promise.reject(new Error('the session is of no further use'));

/** A transaction on a connection that has none. When it rejects the caller must roll back or drop the connection. */
export async function inTransaction<T>(
  client: PostgresClient,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  await client.query('BEGIN');
  const result = await work(client);
  const { command } = await client.query('COMMIT');
  // PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, and calls that a success.
  if (command !== 'COMMIT') throw new HoldfastError('historian.io', `PostgreSQL answered COMMIT with ${command}`);
  return result;
}

/** What a url and `tls` say about encryption must not contradict each other. */
function refuseTwoAnswers(url: string): void {
  if (!/[?&]ssl/.test(url)) return;
  throw new HoldfastError('config.invalid', 'The url of the database and tls both say how to encrypt', {
    hint: 'Remove the parameters that begin with ssl from the url.',
  });
}

/** A client that reads its certificates anew for each connection, and always checks the name in the server's. */
function tlsClient(url: string, tls: TlsFiles): typeof pg.Client {
  const name = tls.servername ?? new URL(url).hostname.replace(/^\[|\]$/g, '');
  return class extends pg.Client {
    constructor(config: pg.ClientConfig) {
      const checkServerIdentity = (_: string, certificate: PeerCertificate) => checkIdentity(name, certificate);
      super({ ...config, ssl: { ...readTlsFiles(tls), minVersion: 'TLSv1.2', checkServerIdentity } });
    }
  } as typeof pg.Client;
}

/** Any error of the database or of the way to it, in the words of the `Historian`. */
export function postgresError(cause: unknown): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const sqlstate = cause instanceof pg.DatabaseError ? cause.code : undefined;
  // A connection that fails on every address of a name has no message of its own.
  const reason = cause instanceof AggregateError ? cause.errors.map(messageOf).join('; ') : messageOf(cause);
  // A value that the driver cannot even write down.
  if (cause instanceof TypeError || (sqlstate && ABOUT_DATA.test(sqlstate)))
    return new HoldfastError('historian.rejected', `PostgreSQL cannot take this batch: ${reason}`, {
      values: { sqlstate },
      cause,
    });
  return new HoldfastError('historian.io', `PostgreSQL cannot be used: ${reason}`, {
    values: { sqlstate: sqlstate ?? systemCodeOf(cause) },
    cause,
    hint: HINTS[sqlstate ?? ''] ?? 'Nothing of it was acknowledged; it comes again once the database is back.',
  });
}

const HINTS: Readonly<Record<string, string>> = {
  '28P01': 'Check the user and the password in historian.url.',
  '3D000': 'Create the database that historian.url names.',
  '42501':
    'This needs the owner of the schema holdfast: set historian.ownerUrl, or run holdfast ingest migrate with it. See config/postgres-roles.sql.',
  '53100': 'The disk of the database is full; nothing is acknowledged until there is room.',
};
