import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const CONFIG = `[ca]
default_ca = plant
[plant]
database = index.txt
new_certs_dir = certs
certificate = ca.pem
private_key = ca.key
rand_serial = yes
default_md = sha256
default_days = 30
default_crl_days = 30
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = optional
organizationName = optional
`;

/** A certificate authority of a plant, by the openssl program. All files are in its folder. */
export class Authority {
  readonly ca: string;
  private readonly dir: string;
  private readonly openssl: string;

  constructor(openssl: string, dir: string, name = 'plant-ca') {
    this.openssl = openssl;
    this.dir = dir;
    this.ca = join(dir, 'ca.pem');
    mkdirSync(join(dir, 'certs'), { recursive: true });
    writeFileSync(join(dir, 'index.txt'), '');
    writeFileSync(join(dir, 'ca.cnf'), CONFIG);
    this.run('req', '-x509', ...this.newKey('ca'), '-subj', `/CN=${name}`, '-days', '30', '-out', 'ca.pem');
  }

  /** `subject` like `/CN=alice`; `days` may lie in the past. */
  issue(file: string, subject: string, days = 30): Certificate {
    const alternative = ['-addext', 'subjectAltName=IP:127.0.0.1'];
    this.run('req', '-new', '-utf8', ...this.newKey(file), '-subj', subject, ...alternative, '-out', `${file}.csr`);
    const at = (day: number) => `${new Date(Date.now() + day * 86_400_000).toISOString().replace(/[-:T]|\..*/g, '')}Z`;
    const times = ['-startdate', at(Math.min(0, days) - 1), '-enddate', at(days)];
    this.run(
      'ca',
      '-batch',
      '-notext',
      '-preserveDN',
      '-config',
      'ca.cnf',
      '-in',
      `${file}.csr`,
      ...times,
      '-out',
      `${file}.pem`,
    );
    return { cert: join(this.dir, `${file}.pem`), key: join(this.dir, `${file}.key`) };
  }

  revoke({ cert }: Certificate): void {
    this.run('ca', '-config', 'ca.cnf', '-revoke', cert);
  }

  /** The list of what is revoked by now. */
  list(): string {
    this.run('ca', '-config', 'ca.cnf', '-gencrl', '-out', 'ca.crl');
    return join(this.dir, 'ca.crl');
  }

  private newKey(file: string): string[] {
    return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${file}.key`];
  }

  private run(...args: string[]): void {
    execFileSync(this.openssl, args, { cwd: this.dir, stdio: ['ignore', 'ignore', 'pipe'] });
  }
}
