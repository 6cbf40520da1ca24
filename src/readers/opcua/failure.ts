import { HoldfastError, messageOf, systemCodeOf } from '../../lib/errors.js';
import type { ServerOptions } from './options.js';
import { trustHint } from './pki.js';

const STATUS = /\b(Bad[A-Z][A-Za-z]+)\b/;
const SYSTEM = /\b(E[A-Z]{4,})\b/;
const UNTRUSTED = /BadCertificateUntrusted|BadCertificateChainIncomplete/;

/** Whatever the stack throws as an error of the catalogue, with the cause as one word in `values.word`. */
export function deviceError(cause: unknown, options?: Pick<ServerOptions, 'url' | 'pkiDir'>): HoldfastError {
  if (cause instanceof HoldfastError && cause.code !== 'internal.assertion') return cause;
  const message = messageOf(cause);
  const word = STATUS.exec(message)?.[1] ?? systemCodeOf(cause) ?? SYSTEM.exec(message)?.[1];
  const values = { ...(options ? { url: options.url } : {}), ...(word ? { word } : {}) };
  if (options && UNTRUSTED.test(message))
    return new HoldfastError('device.link', "The server's certificate is not trusted", {
      cause,
      values,
      hint: trustHint(options.pkiDir),
    });
  if (cause instanceof HoldfastError || /timeout|timed out/i.test(message))
    return new HoldfastError('device.timeout', message, { cause, values });
  const hint = word === undefined ? undefined : HINTS[word];
  return new HoldfastError('device.link', message.split('\n')[0] as string, {
    cause,
    values,
    ...(hint ? { hint } : {}),
  });
}

/** A stable word for states and logs: the server's status code or the system's where there is one. */
export function causeOf(error: unknown): string {
  if (!(error instanceof HoldfastError)) return 'internal';
  return typeof error.values.word === 'string' ? error.values.word : error.code;
}

const HINTS: Readonly<Record<string, string>> = {
  BadSecurityChecksFailed:
    "Trust Holdfast's certificate in the server; it lies in own/certs of the gateway's opcua folder.",
  BadIdentityTokenRejected: 'Check username and password, and whether the server allows them with this security.',
  BadUserAccessDenied: 'Check username and password and the rights of the user in the server.',
  BadSecurityPolicyRejected: 'The server does not offer this security.',
};
