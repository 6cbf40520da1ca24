/** What is done with an OPC UA server before a gateway reads it: look around in it, and read a few nodes. */
import { HoldfastError } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import { type BrowseBounds, type BrowsedNode, browse } from '../readers/opcua/browse.js';
import { resolveNode } from '../readers/opcua/node-ids.js';
import type { Identity, SecurityMode, SecurityPolicy } from '../readers/opcua/options.js';
import { Session } from '../readers/opcua/session.js';
import { loadStack } from '../readers/opcua/stack.js';
import { nameOf } from '../readers/opcua/status.js';
import { convert } from '../readers/opcua/values.js';
import { qualityText } from '../wire/quality.js';

export interface UaServer {
  readonly url: string;
  readonly mode: SecurityMode;
  readonly policy: SecurityPolicy;
  readonly identity: Identity;
  readonly pkiDir: string;
  readonly timeoutMs: number;
}

export interface NodeView {
  readonly node: string;
  readonly type: string | null;
  /** A 64-bit integer as text, since no double holds it. */
  readonly value: unknown;
  readonly quality: string;
  readonly status: string;
  readonly sourceTime: string | null;
  readonly serverTime: string | null;
}

/** Calls back with each node as it is found; resolves with whether there were more than the bounds allow. */
export function browseServer(
  server: UaServer,
  root: string,
  bounds: BrowseBounds,
  log: Log,
  onNode: (node: BrowsedNode) => void,
): Promise<boolean> {
  return withSession(server, log, async (session) => {
    const nodes = browse(session, resolveNode(root, session.namespaces), bounds);
    for (;;) {
      const { done, value } = await nodes.next();
      if (done) return value;
      onNode(value);
    }
  });
}

export function readNodes(server: UaServer, nodes: readonly string[], log: Log): Promise<NodeView[]> {
  return withSession(server, log, async (session) => {
    const values = await session.read(nodes.map((node) => resolveNode(node, session.namespaces)));
    return values.map((value, i) => {
      const { value: plain, quality, cause } = convert(value);
      return {
        node: nodes[i] as string,
        type: value.value ? (session.stack.DataType[value.value.dataType] ?? null) : null,
        value: typeof plain === 'bigint' ? String(plain) : plain,
        quality: String(qualityText(quality)),
        status: cause ?? nameOf(value.statusCode),
        sourceTime: value.sourceTimestamp?.toISOString() ?? null,
        serverTime: value.serverTimestamp?.toISOString() ?? null,
      };
    });
  });
}

async function withSession<T>(server: UaServer, log: Log, work: (session: Session) => Promise<T>): Promise<T> {
  const { identity, ...options } = server;
  if (!server.url.startsWith('opc.tcp://'))
    throw new HoldfastError('usage.invalid', `Expected a URL like opc.tcp://HOST:4840, found ${server.url}`);
  const stack = await loadStack(log);
  const session = await Session.open(stack, {
    ...options,
    identity: () => identity,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
  });
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}

const CONNECT_TIMEOUT_MS = 15_000;
