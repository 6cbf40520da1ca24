import { createRequire } from 'node:module';
import type { OPCUAClientOptions } from 'node-opcua-client';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import type { Log } from '../../lib/log.js';

/** Where a client looks up whom it trusts. */
export type CertificateStore = NonNullable<OPCUAClientOptions['clientCertificateManager']>;

export interface CertificateStoreOptions {
  readonly rootFolder: string;
  readonly automaticallyAcceptUnknownCertificate: boolean;
  readonly disableFileWatchers: boolean;
}

export type Stack = typeof import('node-opcua-client') & {
  readonly OPCUACertificateManager: new (options: CertificateStoreOptions) => CertificateStore;
};

let loading: Promise<Stack> | undefined;

/**
 * The OPC UA stack, loaded at the first call and never before: it costs a second and 70 MB, which a gateway without OPC UA
 * does not pay. What it has to say goes to the log, not to the terminal. Throws `config.invalid` when it is not installed.
 */
export function loadStack(log: Log): Promise<Stack> {
  loading ??= load(log);
  return loading;
}

async function load(log: Log): Promise<Stack> {
  try {
    // Before anything else of it, which speaks up while it is being loaded.
    const debug = part('node-opcua-debug') as Record<string, (say: (...words: unknown[]) => void) => void>;
    const say = (...words: unknown[]) =>
      log.debug({ detail: words.map(String).join(' ').trim() }, 'From the OPC UA stack');
    for (const level of ['Debug', 'Trace', 'Warning', 'Error']) debug[`set${level}Logger`]?.(say);
    const client = await import('node-opcua-client');
    const { OPCUACertificateManager } = part('node-opcua-certificate-manager') as Stack;
    return { ...client, OPCUACertificateManager };
  } catch (cause) {
    loading = undefined;
    throw new HoldfastError('config.invalid', `The OPC UA stack cannot be loaded: ${messageOf(cause)}`, {
      cause,
      hint: 'Install the optional package beside Holdfast: npm install node-opcua-client@2.180.0',
    });
  }
}

/** A package that the client brings along and does not pass on, found from where the client is. */
function part(name: string): unknown {
  const here = createRequire(import.meta.url);
  return createRequire(here.resolve('node-opcua-client'))(name);
}
