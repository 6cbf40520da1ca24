/**
 * Keeps the certificate of one listener fresh: taken anew at a reload, and by itself when a file has changed, so that a
 * renewed certificate needs nobody. Connections that exist stay as they are. Files that cannot be used change nothing.
 */
import type { Server } from 'node:net';
import type { Server as TlsServer, TlsOptions as TlsServerOptions } from 'node:tls';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import { fingerprintOf, readTls, type TlsFiles, type TlsOptions } from './tls-files.js';

/** Asking for four files costs nothing; watching them by events fails on network drives and replaced folders. */
const LOOK_MS = 2_000;
/** Certificates of public authorities are renewed a month before their end. */
const EXPIRES_SOON_MS = 21 * 86_400_000;

export class TlsKeeper {
  private readonly options: TlsOptions;
  private readonly url: string;
  private readonly log: Log;
  private readonly failures = new RateLimit();
  private files: TlsFiles;
  private server: TlsServer | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** What the files looked like when they were read, and at the last look. */
  private taken: string;
  private seen: string;

  private constructor(options: TlsOptions, url: string, log: Log, files: TlsFiles, fingerprint: string) {
    this.options = options;
    this.url = url;
    this.log = log;
    this.files = files;
    this.taken = fingerprint;
    this.seen = fingerprint;
  }

  /** Throws `config.invalid`. */
  static async open(options: TlsOptions, url: string, log: Log): Promise<TlsKeeper> {
    const fingerprint = await fingerprintOf(options);
    const keeper = new TlsKeeper(options, url, log, await readTls(options), fingerprint);
    keeper.warnOfEnd();
    return keeper;
  }

  get serverOptions(): TlsServerOptions {
    const required = this.options.requireCertificate === true;
    return { ...this.files.context, requestCert: required, rejectUnauthorized: required };
  }

  serve(server: Server): void {
    this.server = server as TlsServer;
    this.server.on('tlsClientError', (error, socket) => {
      const heldBack = this.failures.pass('handshake');
      if (heldBack === undefined) return;
      const fields = { listener: this.url, address: socket.remoteAddress, cause: error.message, heldBack };
      this.log.info(fields, 'A TLS handshake failed');
    });
    this.timer = setInterval(() => void this.look(), LOOK_MS);
  }

  /** Reads the files; they take effect when the returned function is called. Throws `config.invalid`. */
  async prepare(): Promise<() => void> {
    const fingerprint = await fingerprintOf(this.options);
    const files = await readTls(this.options);
    return () => {
      this.files = files;
      this.taken = fingerprint;
      this.server?.setSecureContext(files.context);
      this.warnOfEnd();
    };
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const now = await fingerprintOf(this.options);
    // Unchanged since the last look: certificate and key are written one after the other, and only fit in the end.
    const settled = now === this.seen;
    this.seen = now;
    if (now === this.taken || !settled) return;
    this.taken = now;
    try {
      (await this.prepare())();
      this.log.info({ listener: this.url }, 'A changed certificate is in use');
    } catch (error) {
      this.log.error(
        { listener: this.url, cause: messageOf(error) },
        'A changed certificate cannot be used, the earlier one stays',
      );
    }
  }

  private warnOfEnd(): void {
    const { expiresAt } = this.files;
    if (expiresAt - Date.now() > EXPIRES_SOON_MS) return;
    const fields = { listener: this.url, file: this.options.cert, expiresAt: new Date(expiresAt).toISOString() };
    this.log.warn(fields, 'The certificate of a listener ends soon or has ended');
  }
}
