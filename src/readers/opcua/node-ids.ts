import { HoldfastError } from '../../lib/errors.js';

/** The four kinds of identifier, in their text form [OPC 10000-6, 5.3.1.10]. */
const IDENTIFIER = /^(?:i=\d{1,10}|s=.+|g=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|b=[A-Za-z0-9+/]+=*)$/is;
const NAMESPACE = /^(?:ns=(\d{1,5});|nsu=([^;]+);)?(.*)$/is;

/** A node id with the index that its namespace has in this session: after a restart a server may have renumbered them. */
export function resolveNode(node: string, namespaces: readonly string[]): string {
  const [, index, uri, identifier = ''] = NAMESPACE.exec(node) ?? [];
  if (!IDENTIFIER.test(identifier))
    throw new HoldfastError('config.invalid', `${node} is no node id like ns=2;s=Speed or nsu=urn:press;i=1001`);
  if (uri === undefined) return index === undefined ? identifier : `ns=${index};${identifier}`;
  // In the text form, ; and % of a URI are written %3B and %25.
  const wanted = uri.replaceAll(/%3B/gi, ';').replaceAll('%25', '%');
  const found = namespaces.indexOf(wanted);
  if (found < 0)
    throw new HoldfastError('device.exception', `The server has no namespace ${wanted}`, { values: { node } });
  return `ns=${found};${identifier}`;
}
