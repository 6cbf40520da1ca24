import type { DataValue } from 'node-opcua-client';
import type { Millis } from '../../model/ids.js';

/** Before this the clock of a source has never been set. */
const CLOCK_SET_MS = Date.UTC(2000, 0, 1);
/** A source whose clock is further ahead than this is wrong, and would hide every reading to come. */
const AHEAD_MS_MAX = 3_600_000;

/**
 * The time of a value: that of its source; where that is missing, absurd or not after the tag's last one, that of the server,
 * then that of its arrival. Never the same twice for a tag, and never backwards: it is what a reading is known by.
 */
export function stampOf(value: DataValue, arrivedAt: Millis, last: Millis | undefined): Millis {
  const after = last ?? 0;
  const usable = (ms: number | undefined): ms is number =>
    ms !== undefined && ms > after && ms >= CLOCK_SET_MS && ms <= arrivedAt + AHEAD_MS_MAX;
  const times = [value.sourceTimestamp?.getTime(), value.serverTimestamp?.getTime(), arrivedAt];
  return (times.find(usable) ?? after + 1) as Millis;
}
