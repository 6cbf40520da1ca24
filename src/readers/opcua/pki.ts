import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CertificateStore, Stack } from './stack.js';

/** What a connection needs of this program's own identity and of whom it trusts. */
export interface Pki {
  readonly manager: CertificateStore;
  readonly certificateFile: string;
  readonly privateKeyFile: string;
}

/**
 * The certificates below `folder`: `own/`, made when it is missing, `trusted/certs/` whom to talk to, `issuers/` and
 * `rejected/`, where a server's certificate is put that nobody has decided on. Nothing lies in the home folder. Opened
 * anew for every connection, so that a certificate that was moved to `trusted/certs` counts at the next attempt.
 */
export async function openPki(stack: Stack, folder: string): Promise<Pki> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const manager = new stack.OPCUACertificateManager({
    rootFolder: folder,
    automaticallyAcceptUnknownCertificate: false,
    disableFileWatchers: true,
  });
  await manager.initialize();
  return {
    manager,
    certificateFile: join(folder, 'own', 'certs', 'holdfast.pem'),
    privateKeyFile: join(folder, 'own', 'private', 'private_key.pem'),
  };
}

export const trustHint = (folder: string): string =>
  `Compare the fingerprint of the certificate in ${join(folder, 'rejected')} with the server's, then move it to ` +
  `${join(folder, 'trusted', 'certs')}; the next attempt takes it.`;
