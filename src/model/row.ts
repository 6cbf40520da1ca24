import type { Epoch, GatewayId, Millis, Seq } from './ids.js';
import type { Message } from './message.js';
import type { ValueType } from './reading.js';

/** What a message says, as far as it is known: whose reading it is, and of when. */
export interface Identity {
  /** `p` for a message that is no reading, `g` for a gap record; otherwise the type of the reading's value. */
  readonly type: ValueType;
  /** Set for readings and gaps, null for opaque messages. */
  readonly asset: string | null;
  /** Set for readings; null for opaque messages and for gaps of a whole asset. */
  readonly metric: string | null;
  /** The device's time, for readings and gaps. */
  readonly deviceTs: Millis | null;
}

/** What the spool keeps of a message: its own bytes, and what identifies it as a reading if it is one. */
export interface SpoolInput extends Message, Identity {
  /** It may be given up, oldest first, when the spool is full. */
  readonly droppable?: boolean;
}

export interface SpoolRow extends SpoolInput {
  readonly seq: Seq;
  readonly enqueuedAt: Millis;
}

/** Whose rows these are: with `seq` the identity of every message. */
export interface Source {
  readonly gateway: GatewayId;
  readonly epoch: Epoch;
}
