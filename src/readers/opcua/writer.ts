import { HoldfastError } from '../../lib/errors.js';
import type { WriteResult } from '../driver.js';
import type { Tag } from './device.js';
import { encode } from './encode.js';
import { causeOf } from './failure.js';
import { resolveNode } from './node-ids.js';
import type { Session } from './session.js';
import { nameOf } from './status.js';
import { convert } from './values.js';

/**
 * Writes one value once, in the type that the node has. It is done when the server says so, and then read back; a write that
 * got no answer may have been carried out, and is `unknown`. Never rejects.
 */
export async function writeTag(
  session: Session,
  tag: Tag,
  value: unknown,
  mayStart: () => boolean,
): Promise<WriteResult> {
  const { min = -Infinity, max = Infinity } = tag.write ?? {};
  if ((typeof value === 'number' || typeof value === 'bigint') && (value < min || value > max))
    return { outcome: 'rejected', code: 'value', detail: `${value} is not from ${min} to ${max}` };
  let sent = false;
  try {
    const nodeId = resolveNode(tag.node, session.namespaces);
    const [before] = await session.read([nodeId]);
    const dataType = before?.value?.dataType ?? 0;
    if (before?.value && (before.value.arrayType as number) !== 0)
      return { outcome: 'rejected', code: 'unsupported-type', detail: 'an array is not written' };
    if (dataType === 0) return { outcome: 'rejected', code: 'unsupported-type', detail: 'the node has no type yet' };
    const encoded = encode(dataType, value);
    if ('fault' in encoded) return { outcome: 'rejected', code: 'value', detail: encoded.fault };
    if (!mayStart()) return { outcome: 'expired' };
    sent = true;
    const status = await session.write(nodeId, dataType, encoded.value);
    if (!status.isGood()) return { outcome: 'rejected', code: nameOf(status), detail: 'the server refused it' };
    return { outcome: 'done', ...(await readBack(session, tag, nodeId)) };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return { outcome: sent ? 'unknown' : 'rejected', code: causeOf(error), detail: error.message };
  }
}

async function readBack(session: Session, tag: Tag, nodeId: string): Promise<Pick<WriteResult, 'readBack'>> {
  try {
    const [value] = await session.read([nodeId]);
    if (!value) return {};
    const { cause: _, ...sample } = convert(value);
    return { readBack: { tag: tag.name, ...sample } };
  } catch {
    // The write is confirmed; that it could not be looked at says nothing against it.
    return {};
  }
}
