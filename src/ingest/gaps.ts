import type { Millis } from '../model/ids.js';
import { GIVEN_UP } from './gap-views.js';
import { overlap, type SeqRange, without } from './ledger.js';
import type { GapRecord, Jump, LostRecord, Records, Silence, Window } from './records.js';

/**
 * `open`: it may still close by itself, because the device has not come back or the seqs were passed a moment ago. `late`:
 * the seqs behind it arrived long ago. `filled`: what it stood for is here by now. `lost`: it never will be.
 */
export type GapState = 'open' | 'late' | 'filled' | 'lost';

/** A gap that the gateway recorded: time in which an asset was not read, or readings that were given up. */
export interface KnownGap extends GapRecord {
  readonly kind: 'gap';
  readonly state: GapState;
}

export interface SilentDevice extends Silence {
  readonly kind: 'silent';
}

/** A hole in the sequence of a gateway, whatever was in it. */
export interface Hole extends SeqRange {
  readonly kind: 'hole';
  readonly gateway: string;
  readonly epoch: string;
  readonly state: GapState;
  /** When a batch from behind it arrived, if that was noticed. */
  readonly noticedAt: Millis | null;
  /** Why the gateway gave up on it. */
  readonly reason: string | null;
}

/** Batches overtake each other by seconds; a hole that is still there after this needs somebody to look. */
const LATE_MS = 10 * 60_000;

export async function knownGaps(records: Records, window: Window): Promise<KnownGap[]> {
  return (await records.gaps(window)).map((gap) => ({ kind: 'gap', ...gap, state: stateOf(gap) }));
}

/** Devices that are silent by now and have been since before the window's end. */
export async function silentDevices(records: Records, { to, asset }: Window): Promise<SilentDevice[]> {
  return (await records.silences(asset))
    .filter((silence) => silence.from < to)
    .map((silence) => ({ kind: 'silent', ...silence }));
}

/** Every hole in the ledgers at `now`, those that were filled since included; by gateway, epoch and seq. */
export async function holesOf(records: Records, now: Millis): Promise<Hole[]> {
  const [jumps, lost, ledger] = [await records.jumps(), await records.lost(), await records.ledger()];
  return ledger.flatMap(({ gateway, epoch, received, holes }) => {
    const ours = (other: Jump | LostRecord) => other.gateway === gateway && other.epoch === epoch;
    const noticed = jumps.filter(ours);
    const given = lost.filter(ours);
    const missing = holes.flatMap((hole): Hole[] => {
      const at = noticed.findLast((jump) => overlap([jump], hole).length > 0)?.noticedAt ?? null;
      const state = at !== null && now - at < LATE_MS ? 'open' : 'late';
      return [{ kind: 'hole', gateway, epoch, ...hole, state, noticedAt: at, reason: null }];
    });
    const lostHoles = given.flatMap(({ reason, from, to }) =>
      without([{ from, to }], received).map((range): Hole => {
        return { kind: 'hole', gateway, epoch, ...range, state: 'lost', noticedAt: null, reason };
      }),
    );
    const filled = noticed.flatMap(({ from, to, noticedAt }) =>
      overlap(received, { from, to }).map((range): Hole => {
        return { kind: 'hole', gateway, epoch, ...range, state: 'filled', noticedAt, reason: null };
      }),
    );
    return [...missing, ...lostHoles, ...filled].sort((a, b) => a.from - b.from);
  });
}

function stateOf({ reason, count, found, resumed }: GapRecord): GapState {
  if (found > 0 && found >= (count ?? 1)) return 'filled';
  return !resumed && !GIVEN_UP.includes(reason) ? 'open' : 'lost';
}
