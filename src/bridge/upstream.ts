/** What the replayer needs of a way to the cloud: something that can say "taken" for a batch. */

export interface UpstreamLimits {
  /** Batches that may be unanswered at once. May grow while the link is used. */
  readonly inFlightMax: number;
  /** Rows and bytes of all batches that may be unanswered at once; absent: no limit but the number of batches. */
  readonly inFlightRowsMax?: number;
  readonly inFlightBytesMax?: number;
  /** Bytes of one batch's payload. */
  readonly payloadBytesMax: number;
  /** Whether the peer said so. If not, nothing larger than what is configured is risked: it could end every link. */
  readonly announced: boolean;
}

export type Verdict =
  /** The cloud has it. */
  | { readonly kind: 'taken' }
  /**
   * The cloud does not want it now; the reason is for the operator. Everything is kept and tried again, later, and not
   * before `retryAfterMs` where the cloud has asked for a pause.
   */
  | { readonly kind: 'held'; readonly cause: string; readonly retryAfterMs?: number }
  /** The cloud will not take this batch, now or later. */
  | { readonly kind: 'refused'; readonly cause: string };

/** One connection. It is used until it closes and then thrown away. */
export interface UpstreamLink {
  readonly limits: UpstreamLimits;
  /** Settles once per batch with the cloud's verdict; rejects with `upstream.lost` when the link closes first. */
  send(payload: Uint8Array, about: BatchAbout): Promise<Verdict>;
  /** Resolves once, with the reason in words, when the link can no longer be used. */
  readonly closed: Promise<string>;
  /** Set when the peer has ended the link and named what it was sent as the reason. */
  readonly blamed?: boolean;
  /** Set when the peer has ended the link because this gateway may not do what it did; that is no batch's fault. */
  readonly forbidden?: boolean;
  /**
   * Set by a link that watches over its peer and sends again by itself what is not answered, so that silence is no reason
   * to end it: what it waits for, in words.
   */
  waitingFor?(): string;
  /** Ends the link in order; what is in flight is lost to this link. */
  close(): Promise<void>;
  /** Ends the link now, because the peer does not answer. */
  destroy(reason: string): void;
}

export interface BatchAbout {
  readonly first: number;
  readonly last: number;
  readonly rows: number;
}

export interface Upstream {
  readonly url: string;
  /** For the status: what the consumer has said, by what became of it. */
  readonly acks?: Readonly<Record<string, number>>;
  /**
   * Throws `upstream.lost` when there is no peer and `upstream.refused` when there is one that says no. `values.retryAfterMs`
   * of the error is how long the peer wants to be left alone.
   */
  connect(signal: AbortSignal): Promise<UpstreamLink>;
}
