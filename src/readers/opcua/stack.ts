import { HoldfastError, messageOf } from '../../lib/errors.js';
import type { Log } from '../../lib/log.js';

export type Stack = typeof import('node-opcua-client') &
  Pick<typeof import('node-opcua-certificate-manager'), 'OPCUACertificateManager'>;

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
    const debug = await import('node-opcua-debug');
    const say = (...words: unknown[]) =>
      log.debug({ detail: words.map(String).join(' ').trim() }, 'From the OPC UA stack');
    debug.setDebugLogger(say);
    debug.setTraceLogger(say);
    debug.setWarningLogger(say);
    debug.setErrorLogger(say);
    const [client, { OPCUACertificateManager }] = await Promise.all([
      import('node-opcua-client'),
      import('node-opcua-certificate-manager'),
    ]);
    return { ...client, OPCUACertificateManager };
  } catch (cause) {
    loading = undefined;
    throw new HoldfastError('config.invalid', `The OPC UA stack cannot be loaded: ${messageOf(cause)}`, {
      cause,
      hint: 'Install the optional package beside Holdfast: npm install node-opcua-client@2.180.0',
    });
  }
}
