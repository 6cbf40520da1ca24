/** What the replayer needs of a way to the cloud. MQTT is the first; anything that can say "taken" for a batch can follow. */

export interface UpstreamLimits {
  /** Batches that may be unacknowledged at once. */
  readonly inFlightMax: number;
  /** Bytes of one batch's payload. */
  readonly payloadBytesMax: number;
  /** Whether the peer said so. If not, nothing larger than what is configured is risked: it could end every link. */
  readonly announced: boolean;
}

export type Verdict =
  /** The cloud has it. */
  | { readonly kind: 'taken' }
  /** The cloud does not want it now; the reason is for the operator. Everything is kept and tried again, later. */
  | { readonly kind: 'held'; readonly cause: string }
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
  /** Throws `upstream.lost` when there is no peer and `upstream.refused` when there is one that says no. */
  connect(signal: AbortSignal): Promise<UpstreamLink>;
}
