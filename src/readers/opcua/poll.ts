import { sleep } from '../../lib/clock.js';
import type { DriverContext } from '../driver.js';
import type { Group, OpcuaDevice } from './device.js';
import type { Session } from './session.js';
import { resolved } from './subscription.js';

/** Reads a group at its pace, for servers without subscriptions. Ends when `signal` aborts; throws `device.*` on a loss. */
export async function poll(
  session: Session,
  device: OpcuaDevice,
  group: Group,
  context: DriverContext,
  signal: AbortSignal,
): Promise<void> {
  const tags = resolved(session, device, group.tags);
  if (tags.length === 0) return;
  let due = context.clock.mono();
  while (!signal.aborted) {
    const values = await session.read(tags.map(({ nodeId }) => nodeId));
    device.take(tags.flatMap(({ tag }, i) => (values[i] ? [{ tag, value: values[i] }] : [])));
    // The spool sets the pace when it is the slower one.
    await Promise.race([device.idle(), aborted(signal)]);
    due += group.everyMs;
    const late = Math.floor((context.clock.mono() - due) / group.everyMs);
    if (late > 0) {
      device.record.countMissed(late, tags.length);
      due += late * group.everyMs;
    }
    await sleep(due - context.clock.mono(), signal);
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
