import * as z from 'zod';
import { tryEndpoint, url } from './address.js';
import { path } from './connection-schema.js';

const tls = z
  .strictObject({
    cert: path.describe("File with the listener's certificate and its intermediates (PEM)."),
    key: path.describe('File with the key of the certificate (PEM).'),
    ca: path.optional().describe('File with the authorities whose client certificates are accepted (PEM).'),
    crl: path.optional().describe('File with the lists of revoked client certificates, one of each authority (PEM).'),
    requireCertificate: z
      .boolean()
      .prefault(false)
      .describe('Whether a client must have a certificate of one of these authorities.'),
    userFromCertificate: z
      .boolean()
      .prefault(false)
      .describe("Whether the client's certificate names its user; no password is asked for then."),
    certificateName: z
      .enum(['common-name', 'subject'])
      .prefault('common-name')
      .describe(
        'By what it does: its common name, or its whole subject as Mosquitto writes it, like CN=press,O=plant.',
      ),
    minVersion: z.enum(['TLSv1.2', 'TLSv1.3']).prefault('TLSv1.2').describe('Oldest TLS version that is accepted.'),
  })
  .superRefine((value, context) => {
    const needs = (key: keyof typeof value, other: keyof typeof value) => {
      if (value[key] && !value[other]) context.addIssue({ code: 'custom', path: [key], message: `needs ${other} too` });
    };
    needs('requireCertificate', 'ca');
    needs('ca', 'requireCertificate');
    needs('crl', 'ca');
    needs('userFromCertificate', 'requireCertificate');
    if (value.certificateName === 'subject' && !value.userFromCertificate)
      context.addIssue({ code: 'custom', path: ['certificateName'], message: 'needs userFromCertificate too' });
  });

/** One door of the plant's broker. */
export const listener = z
  .strictObject({
    url: url(['mqtt', 'mqtts', 'ws', 'wss'], { freePort: true }).describe(
      'Where to listen: mqtt://HOST:PORT, mqtts://HOST:PORT, ws://HOST:PORT or wss://HOST:PORT.',
    ),
    anonymous: z.boolean().prefault(false).describe('Whether clients may come in without a password.'),
    tls: tls.optional().describe('Certificate of an mqtts:// or wss:// listener. A changed file is taken by itself.'),
    origins: z
      .array(z.string().min(1))
      .optional()
      .describe('Web pages that may connect, like http://hmi.plant:8080, or *. Default: pages of the same host.'),
  })
  .superRefine((value, context) => {
    const scheme = tryEndpoint(value.url)?.scheme;
    const secure = scheme === 'mqtts' || scheme === 'wss';
    if (value.tls && !secure && scheme)
      context.addIssue({
        code: 'custom',
        path: ['tls'],
        message: `has no effect with ${scheme}://; use ${scheme}s://`,
      });
    if (value.origins && (scheme === 'mqtt' || scheme === 'mqtts'))
      context.addIssue({
        code: 'custom',
        path: ['origins'],
        message: `has no effect with ${scheme}://, only with ${secure ? 'wss' : 'ws'}://`,
      });
    if (!value.tls && secure)
      context.addIssue({ code: 'custom', path: ['url'], message: `${scheme}:// needs tls with cert and key` });
  });
