/** Who a client is by its certificate, in the two ways Mosquitto knows. Null: nobody, and the client stays outside. */
import type { TLSSocket } from 'node:tls';

/** An attribute that OpenSSL has no name for, or whose value is no text: Mosquitto writes both as hexadecimal DER. */
const UNNAMED = /^(\d+(\.\d+)*|x500UniqueIdentifier)=/;
/** Between the attributes of one level; a plus sign inside a value has a backslash before it. */
const SAME_LEVEL = ' + ';

/** The common name, when there is exactly one: who is it otherwise? */
export function commonNameOf(socket: TLSSocket): string | null {
  const name: unknown = socket.authorized ? socket.getPeerCertificate().subject?.CN : undefined;
  return typeof name === 'string' && name !== '' && !/[\0\ufffd]/.test(name) ? name : null;
}

/** The whole subject, byte for byte as Mosquitto's `use_subject_as_username` has it. */
export function subjectOf(socket: TLSSocket): string | null {
  const subject = socket.authorized ? socket.getPeerX509Certificate()?.subject : undefined;
  return subject ? subjectAsRfc2253(subject) : null;
}

/**
 * From Node's form, a line for each level from the country down, to that of RFC 2253: the other way round, on one line,
 * and bytes beyond ASCII as `\C3\A4`. The values are escaped alike in both. Null when it holds what they write differently.
 */
export function subjectAsRfc2253(subject: string): string | null {
  const levels = subject.split('\n').map((level) => level.split(SAME_LEVEL));
  if (levels.flat().some((attribute) => UNNAMED.test(attribute) || !attribute.includes('='))) return null;
  if (subject.includes('\ufffd')) return null;
  const name = levels
    .reverse()
    .map((attributes) => attributes.reverse().join('+'))
    .join(',');
  return name.replace(/[^\0-\x7f]+/g, (text) =>
    [...Buffer.from(text)].map((byte) => `\\${byte.toString(16).toUpperCase()}`).join(''),
  );
}
