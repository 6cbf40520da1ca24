/** Certificate, key and authorities of a listener, read from files and checked before they are used. */
import { X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { messageOf } from '../lib/errors.js';
import { allOrProblems, readText, refused } from './line-problem.js';

export interface TlsOptions {
  /** Files, PEM. `cert` is followed by its intermediate certificates. */
  readonly cert: string;
  readonly key: string;
  /** Authorities whose client certificates are taken. */
  readonly ca?: string | undefined;
  /** Lists of revoked client certificates, one of every authority that signs any in the chain. */
  readonly crl?: string | undefined;
  readonly requireCertificate?: boolean;
  /** The client's certificate names the user; needs `requireCertificate`. */
  readonly userFromCertificate?: boolean;
  /** By its common name, which is the default, or by its whole subject. */
  readonly certificateName?: 'common-name' | 'subject';
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3';
}

export interface TlsFiles {
  readonly context: SecureContextOptions;
  /** Wall time in ms after which clients refuse the certificate. */
  readonly expiresAt: number;
}

const PEM_BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Throws `config.invalid` when a file cannot be used, or certificate and key do not belong together. */
export async function readTls({ cert, key, ca, crl, minVersion = 'TLSv1.2' }: TlsOptions): Promise<TlsFiles> {
  const files = [cert, key, ca, crl].map(async (file) => (file === undefined ? undefined : readText(file)));
  const [certText, keyText, caText, crlText] = await allOrProblems('the TLS files are not valid', files);
  const own = certificatesIn(cert, certText as string);
  const context: SecureContextOptions = {
    cert: certText,
    key: keyText,
    minVersion,
    ...(ca === undefined ? {} : { ca: certificatesIn(ca, caText as string).map(String) }),
    ...(crlText === undefined ? {} : { crl: crlText }),
  };
  attempt(cert, 'is no certificate that can be used', () => createSecureContext({ cert: certText }));
  attempt(key, `is no key, or not the one of ${cert}`, () => createSecureContext({ cert: certText, key: keyText }));
  if (crl !== undefined) attempt(crl, 'is no list of revoked certificates', () => createSecureContext(context));
  return { context, expiresAt: Date.parse((own[0] as X509Certificate).validTo) };
}

/** Changes when any of the files does: by the clock of the file system, its number and its size. */
export async function fingerprintOf({ cert, key, ca, crl }: TlsOptions): Promise<string> {
  const files = [cert, key, ca, crl].filter((file) => file !== undefined);
  const stats = await Promise.all(files.map((file) => stat(file).catch(() => undefined)));
  return stats.map((found) => (found ? `${found.mtimeMs}/${found.ino}/${found.size}` : '-')).join(' ');
}

function certificatesIn(file: string, text: string): X509Certificate[] {
  const blocks = text.match(PEM_BLOCK) ?? [];
  // Node would quietly trust nobody, and every client would be refused for no reason that shows.
  if (blocks.length === 0) throw problem(file, 'contains no certificate (PEM)');
  return blocks.map((block) => attempt(file, 'contains a broken certificate', () => new X509Certificate(block)));
}

function attempt<T>(file: string, complaint: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw problem(file, `${complaint} (${messageOf(cause)})`);
  }
}

function problem(file: string, message: string) {
  return refused('the TLS files are not valid', [{ file, line: null, message }]);
}
