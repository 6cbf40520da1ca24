/** Last wills [MQTT5 3.1.2.5]: kept in a table from CONNECT on, so that a crash of the broker does not swallow them. */
import type { Op } from '../store/tables.js';
import type { Intake } from './intake.js';
import type { Session, Will } from './session.js';
import type { Shared } from './shared.js';
import type { WillRow } from './tables.js';

export class Wills {
  private readonly shared: Shared;
  private readonly intake: Intake;

  constructor(shared: Shared, intake: Intake) {
    this.shared = shared;
    this.intake = intake;
  }

  /** The row of a session's will; `dueAt` in wall time, null while the client is connected. */
  put({ id, user }: Session, will: Will, dueAt: number | null): Op {
    const { topic, payload, props, qos, retain, expiryS, delayS } = will;
    const row = [id, topic, payload, props, qos, retain ? 1 : 0, expiryS, delayS, dueAt, user] as const;
    return this.shared.statements.willPut(...row);
  }

  /** The connection is gone without a normal DISCONNECT: at once, or after the delay unless the client comes back. */
  arm(session: Session): void {
    const { will } = session;
    if (!will) return;
    const delayMs = Math.min(will.delayS, session.expiryS) * 1000;
    if (delayMs <= 0) {
      this.fire(session);
      return;
    }
    session.willDueAt = this.shared.clock.mono() + delayMs;
    this.shared.store.submit([this.put(session, will, this.shared.clock.now() + delayMs)], this.complain);
  }

  /** The client said goodbye: the will is not to be published [MQTT-3.14.4-3]. */
  discard(session: Session): void {
    if (!session.will) return;
    session.will = null;
    session.willDueAt = Number.POSITIVE_INFINITY;
    this.shared.store.submit([this.shared.statements.willDelete(session.id)], this.complain);
  }

  /** Publishes it; its row goes in the same unit, so it is published once. */
  fire(session: Session): void {
    const { will } = session;
    session.will = null;
    session.willDueAt = Number.POSITIVE_INFINITY;
    if (!will) return;
    if (!this.shared.access.mayPublish(session.principal, will.topic)) {
      this.shared.counters.dropped.denied++;
      this.shared.store.submit([this.shared.statements.willDelete(session.id)], this.complain);
      return;
    }
    const { topic, payload, props, qos, retain, expiryS } = will;
    const deadline = expiryS > 0 ? this.shared.clock.now() + expiryS * 1000 : 0;
    const message = { topic, payload, props, qos, retain, deadline, sender: session.id, user: session.user };
    this.intake.publish(message, null, this.shared.statements.willDelete(session.id), this.complain);
  }

  /** A will found at start: due when its time has come, or its delay after this start. */
  restore(session: Session, row: WillRow): void {
    const [, topic, payload, props, qos, retain, expiryS, delayS, dueAt] = row;
    session.will = { topic, payload, props, qos: qos as Will['qos'], retain: retain === 1, expiryS, delayS };
    const { clock } = this.shared;
    const delayMs = Math.min(delayS, session.expiryS) * 1000;
    const leftMs = dueAt === null ? delayMs : Math.min(delayMs, dueAt - clock.now());
    session.willDueAt = clock.mono() + Math.max(0, leftMs);
  }

  private readonly complain = (error: Error | null): void => {
    if (error) this.shared.log.error({ cause: error.message }, 'A will could not be stored');
  };
}
