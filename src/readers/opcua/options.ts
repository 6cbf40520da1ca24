/** What one OPC UA server is to be asked, checked by the config and free of its forms. */

export type SecurityMode = 'None' | 'Sign' | 'SignAndEncrypt';
export type SecurityPolicy = 'None' | 'Basic256Sha256' | 'Aes128_Sha256_RsaOaep' | 'Aes256_Sha256_RsaPss';

/** Read anew for every connection, so that a rotated password counts at the next one. */
export type Identity =
  | { readonly kind: 'anonymous' }
  | { readonly kind: 'user'; readonly username: string; readonly password: string }
  | { readonly kind: 'certificate'; readonly cert: string; readonly key: string };

export interface ServerOptions {
  /** `opc.tcp://HOST:PORT/PATH` */
  readonly url: string;
  readonly mode: SecurityMode;
  readonly policy: SecurityPolicy;
  readonly identity: () => Identity;
  /** Folder of this program's certificate and of those that it trusts. */
  readonly pkiDir: string;
  readonly connectTimeoutMs: number;
  /** For one answer. */
  readonly timeoutMs: number;
}

export interface OpcuaOptions extends ServerOptions {
  /** Time between two questions whether the server is there, and the longest silence of a subscription. */
  readonly keepAliveMs: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  readonly devices: readonly OpcuaDeviceOptions[];
}

export interface OpcuaDeviceOptions {
  readonly asset: string;
  readonly groups: readonly OpcuaGroupOptions[];
}

export interface OpcuaGroupOptions {
  /** Time between two notifications of the server, or with `poll` between two reads. */
  readonly everyMs: number;
  /** Time between two samples in the server; 0: each change is one. */
  readonly samplingMs: number;
  readonly mode: 'subscribe' | 'poll';
  /** Samples of a tag that the server keeps until they are fetched. */
  readonly queue: number;
  /** The longest time without a reading of an unchanged value. */
  readonly heartbeatMs: number;
  readonly tags: readonly OpcuaTagOptions[];
}

export interface OpcuaTagOptions {
  readonly name: string;
  /** `ns=2;s=Speed` or, safe against servers that renumber, `nsu=urn:press;s=Speed`. */
  readonly node: string;
  /** Absent: it is never written. */
  readonly write?: { readonly min?: number; readonly max?: number };
}
