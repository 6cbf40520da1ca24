/** From a CONNECT that was understood to a session, or to the reason why not. */
import { messageOf } from '../lib/errors.js';
import type { Connection, ConnectionContext } from './connection.js';
import type { Handshake } from './handshake.js';
import { ProtocolError, REASON } from './reason.js';
import type { Session } from './session.js';

export interface Admitted {
  readonly session: Session;
  /** The session is an earlier one. */
  readonly present: boolean;
}

/** Who it is comes first; nothing of a session is touched for a client that may not come in. Never rejects. */
export async function admitClient(
  { shared, sessions, entrance }: ConnectionContext,
  connection: Connection,
  { clientId, username, password, cleanStart, expiryS, will }: Handshake,
): Promise<Admitted | ProtocolError> {
  try {
    const isGone = (): boolean => connection.isClosed;
    const principal = await shared.access.authenticate({ ...entrance, clientId, username, password, isGone });
    if (!principal) {
      if (!isGone()) shared.counters.failedLogins++;
      return new ProtocolError(REASON.notAuthorized, 'not authorized');
    }
    connection.onKnown();
    return await sessions.attach(connection, { clientId, user: principal.user, cleanStart, expiryS, will });
  } catch (error) {
    if (error instanceof ProtocolError) return error;
    // The cause is for the operator; a client that is not let in learns nothing of our inside.
    const heldBack = shared.complaints.pass('admission');
    if (heldBack !== undefined) {
      const fields = { address: entrance.address, client: clientId, cause: messageOf(error), heldBack };
      shared.log.error(fields, 'A client could not be let in');
    }
    return new ProtocolError(REASON.implementationError, 'internal error');
  }
}
