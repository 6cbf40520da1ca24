/** What may become of writes that were not safe when the power went. */
import type { Random } from '../helpers/random.js';
import { applied, type Change, type Disk, type Image } from './disk.js';

export const FATES = ['dropped', 'kept', 'prefix', 'subset', 'torn', 'garbage'] as const;
export type Fate = (typeof FATES)[number];

/** The unit that a disk writes whole or not at all. */
const SECTOR_BYTES = 512;

/**
 * `dropped`: nothing reached the disk; `kept`: all of it (as after a kill); `prefix`: the first so many writes of each
 * file; `subset`: any of them; `torn`: any sectors of them, over whatever was there; `garbage`: and some of these sectors
 * hold noise, which SQLite allows for within the range of a write.
 */
export function imageAfter(disk: Disk, fate: Fate, random: Random): Image {
  const names = fate === 'dropped' ? 0 : fate === 'kept' ? disk.pendingNameCount : random.int(0, disk.pendingNameCount);
  switch (fate) {
    case 'dropped':
      return disk.image(names, (file) => file.safe);
    case 'kept':
      return disk.image(names, (file) => applied(file, () => true));
    case 'prefix':
      return disk.image(names, (file) => {
        let left = random.int(0, file.pending.length);
        return applied(file, () => left-- > 0);
      });
    case 'subset':
      return disk.image(names, (file) => applied(file, () => random.chance(0.5)));
    case 'torn':
      return disk.image(names, (file) => applied(file, (change) => sectors(change, random, 0)));
    case 'garbage':
      return disk.image(names, (file) => applied(file, (change) => sectors(change, random, 0.2)));
  }
}

function sectors(change: Change, random: Random, noise: number): Change[] {
  if (!('data' in change)) return random.chance(0.5) ? [change] : [];
  const { at, offset, data } = change;
  const pieces: Change[] = [];
  for (let from = 0; from < data.length; ) {
    const to = Math.min(data.length, SECTOR_BYTES - ((offset + from) % SECTOR_BYTES) + from);
    if (random.chance(0.5)) {
      const whole = data.subarray(from, to);
      pieces.push({ at, offset: offset + from, data: random.chance(noise) ? random.bytes(whole.length) : whole });
    }
    from = to;
  }
  return pieces;
}
