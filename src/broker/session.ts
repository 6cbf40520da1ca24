/** What the broker keeps of a client across its connections. Only data: who changes it is said at each field. */
import type { Qos } from '../model/message.js';
import type { Principal } from './access.js';
import type { Connection } from './connection.js';
import type { Outbox } from './outbox.js';
import type { Receiver, Subscription } from './router.js';

export interface Will {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly props: Uint8Array | null;
  readonly qos: Qos;
  readonly retain: boolean;
  /** 0: does not expire. */
  readonly expiryS: number;
  readonly delayS: number;
}

export class Session implements Receiver {
  /** Its number in the tables; a client's next session gets another. */
  readonly key: number;
  readonly id: string;
  /** Who it belongs to; nobody else may take it over or end it. Null: anonymous. */
  readonly user: string | null;
  /** Who asks, in every question about its rights. */
  readonly principal: Principal;
  readonly subscriptions = new Map<string, Subscription<this>>();
  /** Has rows in the tables. */
  persistent = false;
  /** How long it outlives its connection; 0 not at all, Infinity for ever. */
  expiryS = 0;
  connection: Connection | null = null;
  outbox: Outbox | null = null;
  will: Will | null = null;
  /** Monotonic ms at which the will is published or the session ends; Infinity while neither is due. */
  willDueAt = Number.POSITIVE_INFINITY;
  endsAt = Number.POSITIVE_INFINITY;
  ended = false;
  /** Rows of the outgoing table, those on their way into it included. */
  rows = 0;
  /** Bytes of their payloads. */
  rowBytes = 0;
  /** The oldest rows are being dropped, and none are read meanwhile. */
  trimming = false;
  /** QoS 2 ids that were taken over and not released: of a persistent session only their number, the table has them. */
  halfOpen = 0;
  readonly received = new Set<number>();

  constructor(key: number, id: string, user: string | null) {
    this.key = key;
    this.id = id;
    this.user = user;
    this.principal = { user, clientId: id };
  }

  readiness(): 0 | 1 | 2 {
    if (this.outbox) return this.outbox.hasRoom() ? 2 : 1;
    return this.persistent ? 1 : 0;
  }
}
