declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** Milliseconds since 1970-01-01 UTC. */
export type Millis = Brand<number, 'Millis'>;
/** Position in one spool file: 1, 2, 3 … never reused. Exact as a number up to 2⁵³. */
export type Seq = Brand<number, 'Seq'>;
/** Names one life of a spool file; a new file is a new epoch, because its sequence starts again. */
export type Epoch = Brand<string, 'Epoch'>;
/** The gateway's configured id. */
export type GatewayId = Brand<string, 'GatewayId'>;
