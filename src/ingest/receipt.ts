import type { ErrorCode } from '../lib/errors.js';
import type { Ack } from '../wire/ack.js';
import type { Batch } from '../wire/batch.js';
import type { BatchIdentity } from '../wire/identity.js';

/** What has become of the bytes of a batch, durably. `ack` is what the ledger holds when it is called. */
export type Receipt =
  | { readonly kind: 'stored'; readonly batch: Batch; readonly ack: () => Ack }
  /** They can never be stored as a batch. `identity` is what can be read of it all the same. */
  | {
      readonly kind: 'kept-aside';
      readonly identity: BatchIdentity | undefined;
      readonly code: ErrorCode;
      readonly reason: string;
    };
