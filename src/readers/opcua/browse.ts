import type { ReferenceDescription } from 'node-opcua-client';
import type { Session } from './session.js';

export interface BrowsedNode {
  /** In the form that survives a renumbering of the namespaces. */
  readonly node: string;
  readonly name: string;
  /** `Object`, `Variable`, `Method` and so on. */
  readonly kind: string;
  /** Levels below the node where the browse began. */
  readonly depth: number;
}

export interface BrowseBounds {
  readonly depthMax: number;
  readonly nodesMax: number;
}

/**
 * The nodes below one, a parent before its children, each node once however many ways lead to it. Ends at the bounds, and
 * returns whether there was more.
 */
export async function* browse(
  session: Session,
  root: string,
  { depthMax, nodesMax }: BrowseBounds,
): AsyncGenerator<BrowsedNode, boolean> {
  const seen = new Set([root]);
  let cut = false;
  let count = 0;
  yield* below(root, 1);
  return cut;

  async function* below(nodeId: string, depth: number): AsyncGenerator<BrowsedNode> {
    const references = await children(session, nodeId);
    for (const { nodeId: id, browseName, nodeClass } of references) {
      const child = id.toString();
      if (seen.has(child)) continue;
      if (count >= nodesMax) {
        cut = true;
        return;
      }
      seen.add(child);
      count++;
      yield { node: stable(child, session.namespaces), name: String(browseName.name), kind: kindOf(nodeClass), depth };
      if (depth < depthMax) yield* below(child, depth + 1);
      else cut ||= (await children(session, child)).length > 0;
    }
  }

  function kindOf(nodeClass: number): string {
    return session.stack.NodeClass[nodeClass] ?? String(nodeClass);
  }
}

async function children(session: Session, nodeId: string): Promise<ReferenceDescription[]> {
  const { BrowseDirection } = session.stack;
  const description = {
    nodeId,
    browseDirection: BrowseDirection.Forward,
    referenceTypeId: HIERARCHICAL,
    includeSubtypes: true,
    nodeClassMask: 0,
    resultMask: 63,
  };
  const result = await session.ask(session.raw.browse(description), 'A browse');
  const all = [...(result.references ?? [])];
  for (let next = result.continuationPoint, parts = 1; next && next.length > 0 && parts < PARTS_MAX; parts++) {
    const more = await session.ask(session.raw.browseNext(next, false), 'A browse');
    all.push(...(more.references ?? []));
    next = more.continuationPoint;
  }
  return all;
}

/** A URI in the place of the index, except in the namespace of the standard, whose index is always the same. */
function stable(node: string, namespaces: readonly string[]): string {
  const [, index, identifier] = /^ns=(\d+);(.*)$/s.exec(node) ?? [];
  const uri = index === undefined || index === '0' ? undefined : namespaces[Number(index)];
  return uri === undefined ? node : `nsu=${uri.replaceAll('%', '%25').replaceAll(';', '%3B')};${identifier}`;
}

/** HierarchicalReferences [OPC 10000-3, 7.3]. */
const HIERARCHICAL = 'i=33';
/** A server that never ends a list must not end this program. */
const PARTS_MAX = 1000;
