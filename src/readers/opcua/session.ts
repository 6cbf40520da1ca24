import { readFileSync } from 'node:fs';
import type { ClientSession, DataValue, OPCUAClient, StatusCode, UserIdentityInfo } from 'node-opcua-client';
import { within } from '../../lib/clock.js';
import { HoldfastError } from '../../lib/errors.js';
import { deviceError } from './failure.js';
import type { Identity, ServerOptions } from './options.js';
import { openPki, type Pki } from './pki.js';
import type { Stack } from './stack.js';

/** What the server allows in one request; 0 in its own words means any number [OPC 10000-5, 6.3.11]. */
export interface Limits {
  readonly nodesPerRead: number;
  readonly itemsPerCall: number;
}

/**
 * One session on one connection. It lives once: after a loss a new one is opened and everything is resolved and subscribed
 * anew, so that no subscription is ever there twice.
 */
export class Session {
  readonly raw: ClientSession;
  readonly stack: Stack;
  /** By index. */
  readonly namespaces: readonly string[];
  readonly limits: Limits;
  /** Resolves with the reason when the connection ends, whoever ends it. */
  readonly lost: Promise<string>;
  private readonly client: OPCUAClient;
  private readonly pki: Pki;
  private readonly timeoutMs: number;
  private closed: Promise<void> | undefined;

  private constructor(parts: {
    stack: Stack;
    raw: ClientSession;
    client: OPCUAClient;
    pki: Pki;
    lost: Promise<string>;
    namespaces: readonly string[];
    limits: Limits;
    timeoutMs: number;
  }) {
    this.raw = parts.raw;
    this.stack = parts.stack;
    this.client = parts.client;
    this.pki = parts.pki;
    this.lost = parts.lost;
    this.namespaces = parts.namespaces;
    this.limits = parts.limits;
    this.timeoutMs = parts.timeoutMs;
  }

  /**
   * Throws `device.link`, `device.timeout` or `config.invalid`; nothing is left open then. Bounded by the timeouts, and given
   * up at once when `signal` aborts.
   */
  static async open(stack: Stack, options: ServerOptions, signal?: AbortSignal): Promise<Session> {
    const { url, connectTimeoutMs, timeoutMs, pkiDir } = options;
    const identity = options.identity();
    const pki = await openPki(stack, pkiDir);
    const client = stack.OPCUAClient.create({
      applicationName: 'Holdfast',
      clientName: 'Holdfast',
      // Behind NAT and in containers a server's own idea of its address is seldom the one that leads to it.
      endpointMustExist: false,
      securityMode: stack.MessageSecurityMode[options.mode],
      securityPolicy: stack.SecurityPolicy[options.policy],
      clientCertificateManager: pki.manager,
      certificateFile: pki.certificateFile,
      privateKeyFile: pki.privateKeyFile,
      keepSessionAlive: false,
      requestedSessionTimeout: SESSION_TIMEOUT_MS,
      transportTimeout: connectTimeoutMs,
      defaultTransactionTimeout: timeoutMs,
      // This driver makes every new attempt itself, on a new client.
      connectionStrategy: { maxRetry: 0, initialDelay: 100, maxDelay: 100 },
    });
    let giveUp = () => {};
    const givenUp = new Promise<never>((_, reject) => {
      giveUp = () => reject(new HoldfastError('device.link', 'Connecting was given up'));
    });
    givenUp.catch(() => {});
    signal?.addEventListener('abort', giveUp, { once: true });
    if (signal?.aborted) giveUp();
    const step = <T>(promise: Promise<T>, ms: number, what: string): Promise<T> =>
      Promise.race([within(promise, ms, what), givenUp]);
    try {
      const lost = new Promise<string>((resolve) => {
        client.on('connection_lost', () => resolve('connection-lost'));
        client.on('close', () => resolve('connection-lost'));
        client.on('abort', () => resolve('connection-lost'));
      });
      await step(client.connect(url), connectTimeoutMs, 'Connecting');
      const raw = await step(client.createSession(userIdentity(stack, identity)), connectTimeoutMs, 'The session');
      const namespaces = await step(raw.readNamespaceArray(), timeoutMs, 'Reading the namespaces');
      const limits = await readLimits(raw, timeoutMs);
      return new Session({ stack, raw, client, pki, lost, namespaces, limits, timeoutMs });
    } catch (error) {
      await disconnect(client, pki);
      throw deviceError(error, options);
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  /** Values in the order of the nodes, each with its own status. Throws `device.*` when there is no answer. */
  async read(nodeIds: readonly string[]): Promise<DataValue[]> {
    const values: DataValue[] = [];
    for (let at = 0; at < nodeIds.length; at += this.limits.nodesPerRead) {
      const nodes = nodeIds.slice(at, at + this.limits.nodesPerRead);
      const request = nodes.map((nodeId) => ({ nodeId, attributeId: this.stack.AttributeIds.Value }));
      values.push(...(await this.ask(this.raw.read(request), 'A read')));
    }
    return values;
  }

  /** Only the value: many servers refuse a write that brings a status or a time. */
  write(nodeId: string, dataType: number, value: unknown): Promise<StatusCode> {
    const attributeId = this.stack.AttributeIds.Value;
    const { Scalar: arrayType } = this.stack.VariantArrayType;
    const request = { nodeId, attributeId, value: { value: { dataType, arrayType, value } } };
    return this.ask(this.raw.write(request), 'A write');
  }

  /** Asks whether the server is there: how long the answer took, and what the server's clock says. */
  async probe(): Promise<{ readonly rttMs: number; readonly serverTime: DataValue }> {
    const from = performance.now();
    const [serverTime] = await this.read([SERVER_TIME]);
    return { rttMs: performance.now() - from, serverTime: serverTime as DataValue };
  }

  /** `promise` in its time, with an error of this program's own instead of the stack's. */
  async ask<T>(promise: Promise<T>, what: string): Promise<T> {
    try {
      return await within(promise, this.timeoutMs, what);
    } catch (error) {
      throw deviceError(error);
    }
  }

  /** Ends the subscriptions and the session in the server too, if it answers in time. Bounded, never rejects. */
  close(): Promise<void> {
    this.closed ??= disconnect(this.client, this.pki, this.raw);
    return this.closed;
  }
}

async function disconnect(client: OPCUAClient, pki: Pki, raw?: ClientSession): Promise<void> {
  try {
    if (raw) await within(raw.close(true), CLOSE_MS, 'Closing the session');
  } catch {
    // The server ends the session by itself when it hears no more of it.
  }
  try {
    await within(client.disconnect(), CLOSE_MS, 'Disconnecting');
  } catch {
    // The socket is gone or will be; there is nothing more to do about it.
  }
  await pki.manager.dispose().catch(() => {});
}

async function readLimits(raw: ClientSession, timeoutMs: number): Promise<Limits> {
  const nodes = [MAX_NODES_PER_READ, MAX_ITEMS_PER_CALL].map((nodeId) => ({ nodeId, attributeId: 13 }));
  const values = await within(raw.read(nodes), timeoutMs, 'Reading the limits');
  const limit = (value: DataValue | undefined): number => {
    const told = value?.value?.value as unknown;
    return typeof told === 'number' && told > 0 ? Math.min(told, BATCH_MAX) : BATCH_MAX;
  };
  return { nodesPerRead: limit(values[0]), itemsPerCall: limit(values[1]) };
}

function userIdentity(stack: Stack, identity: Identity): UserIdentityInfo {
  if (identity.kind === 'user')
    return { type: stack.UserTokenType.UserName, userName: identity.username, password: identity.password };
  if (identity.kind === 'anonymous') return { type: stack.UserTokenType.Anonymous };
  const pem = readFileSync(identity.cert, 'utf8');
  return {
    type: stack.UserTokenType.Certificate,
    certificateData: Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64'),
    privateKey: readFileSync(identity.key, 'utf8'),
  };
}

/** Server_ServerStatus_CurrentTime and the operation limits [OPC 10000-6, annex A]. */
const SERVER_TIME = 'i=2258';
const MAX_NODES_PER_READ = 'i=11705';
const MAX_ITEMS_PER_CALL = 'i=11714';
/** Small enough for the default message size of every server. */
const BATCH_MAX = 500;
/** After a link loss the server keeps a session no longer than this. */
const SESSION_TIMEOUT_MS = 60_000;
const CLOSE_MS = 1500;
