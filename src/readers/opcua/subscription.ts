import type { DataValue } from 'node-opcua-client';
import { HoldfastError } from '../../lib/errors.js';
import type { Group, OpcuaDevice, Tag } from './device.js';
import { resolveNode } from './node-ids.js';
import type { OpcuaOptions } from './options.js';
import type { Session } from './session.js';
import { nameOf } from './status.js';

export interface HeldSubscription {
  /** The server owes a sign of life for so long that the subscription must be gone, although it answers questions. */
  isSilent(): boolean;
}

/**
 * Subscribes the tags of a group: values come as they change, sampled in the server at the group's pace. A tag that the
 * server does not know is refused by itself; the others are there. Resolves when the server has taken all of them, and
 * `onEnd` is called when it ends the subscription later on. Nothing is taken any more once `signal` aborts. Throws `device.*` when there is no subscription to be had.
 */
export async function subscribe(
  session: Session,
  device: OpcuaDevice,
  group: Group,
  { keepAliveMs, timeoutMs }: Pick<OpcuaOptions, 'keepAliveMs' | 'timeoutMs'>,
  onEnd: (cause: string) => void,
  signal: AbortSignal,
): Promise<HeldSubscription> {
  const keepAliveCount = Math.max(1, Math.ceil(keepAliveMs / group.everyMs));
  const subscription = await session.ask(
    session.raw.createSubscription2({
      requestedPublishingInterval: group.everyMs,
      requestedMaxKeepAliveCount: keepAliveCount,
      requestedLifetimeCount: keepAliveCount * LIFETIME_KEEP_ALIVES,
      maxNotificationsPerPublish: NOTIFICATIONS_MAX,
      publishingEnabled: true,
      priority: 0,
    }),
    'A subscription',
  );
  subscription.on('terminated', () => onEnd('subscription-ended'));
  subscription.on('status_changed', (status) => onEnd(nameOf(status)));
  let heardAt = performance.now();
  const hear = () => {
    heardAt = performance.now();
  };
  subscription.on('keepalive', hear);
  subscription.on('raw_notification', hear);
  // A rejected publish is seen by the next question whether the server is there.
  subscription.on('internal_error', () => {});
  subscription.on('error', () => {});

  const collect = collector(device, signal);
  const known = resolved(session, device, group.tags);
  for (let at = 0; at < known.length; at += session.limits.itemsPerCall)
    await monitor(known.slice(at, at + session.limits.itemsPerCall));
  const owedMs = subscription.publishingInterval * subscription.maxKeepAliveCount;
  return { isSilent: () => performance.now() - heardAt > owedMs * KEEP_ALIVES_MISSED_MAX + timeoutMs };

  async function monitor(part: readonly { readonly tag: Tag; readonly nodeId: string }[]): Promise<void> {
    const { ClientMonitoredItemGroup, AttributeIds, TimestampsToReturn } = session.stack;
    const items = ClientMonitoredItemGroup.create(
      subscription,
      part.map(({ nodeId }) => ({ nodeId, attributeId: AttributeIds.Value })),
      { samplingInterval: group.samplingMs, queueSize: group.queue, discardOldest: true },
      TimestampsToReturn.Both,
    );
    // Before the answer: the first values may come in the same packet.
    items.on('changed', (_item, value, index) => {
      const tag = part[index]?.tag;
      if (tag) collect(tag, value);
    });
    const ready = new Promise<void>((resolve, reject) => {
      items.on('initialized', () => resolve());
      items.on('err', (message) => reject(new Error(message)));
      items.on('terminated', (error) => reject(error ?? new Error('The subscription ended')));
    });
    await session.ask(ready, 'Monitoring');
    for (const [index, { tag }] of part.entries()) {
      const status = items.monitoredItems[index]?.statusCode;
      if (status && !status.isGood()) device.refuse(tag, nameOf(status));
    }
  }
}

/** Tags with their node ids of this session; a tag whose namespace the server does not have is refused. */
export function resolved(
  session: Session,
  device: OpcuaDevice,
  tags: readonly Tag[],
): { readonly tag: Tag; readonly nodeId: string }[] {
  return tags.flatMap((tag) => {
    try {
      return [{ tag, nodeId: resolveNode(tag.node, session.namespaces) }];
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      device.refuse(tag, 'unknown-namespace');
      return [];
    }
  });
}

/** What comes in one notification goes on as one piece. */
function collector(device: OpcuaDevice, signal: AbortSignal): (tag: Tag, value: DataValue) => void {
  let values: { tag: Tag; value: DataValue }[] = [];
  return (tag, value) => {
    // A server that wakes up may still send on a connection that was given up; the gap has begun before.
    if (signal.aborted) return;
    values.push({ tag, value });
    if (values.length > 1) return;
    setImmediate(() => {
      const all = values;
      values = [];
      device.take(all);
    });
  };
}

/** One may be late on a busy line; three are no accident. */
const KEEP_ALIVES_MISSED_MAX = 3;
/** The server ends a subscription that was not fetched from for so many of its keep-alives. */
const LIFETIME_KEEP_ALIVES = 10;
/** Bounds the size of one notification. */
const NOTIFICATIONS_MAX = 10_000;
