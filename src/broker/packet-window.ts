/** The messages of one connection that are sent and not acknowledged, by packet id [MQTT5 4.9]. */
import type { Qos } from '../model/message.js';

export interface InFlight {
  readonly qos: Qos;
  /** The message's row; 0 while it is not committed, or when there is none. */
  seq: number;
  /** Payload of the row, as it counts in `session.rowBytes`. */
  bytes: number;
}

const PACKET_ID_MAX = 65_535;

export class PacketWindow {
  readonly size: number;
  private readonly entries = new Map<number, InFlight>();
  /** Ids of rows that an earlier connection has sent and this one has not yet. */
  private readonly storedIds = new Set<number>();
  private lastId = 0;

  /** `size` is at most the client's Receive Maximum. */
  constructor(size: number) {
    this.size = size;
  }

  get used(): number {
    return this.entries.size;
  }

  get hasRoom(): boolean {
    return this.entries.size < this.size;
  }

  /** These ids are taken by rows of the session, until `admit` comes to them. */
  hold(ids: readonly number[]): void {
    for (const id of ids) this.storedIds.add(id);
  }

  get(id: number): InFlight | undefined {
    return this.entries.get(id);
  }

  /** A free id, from now on in flight. */
  add(qos: Qos, seq: number, bytes: number): number {
    do this.lastId = (this.lastId % PACKET_ID_MAX) + 1;
    while (this.entries.has(this.lastId) || this.storedIds.has(this.lastId));
    this.entries.set(this.lastId, { qos, seq, bytes });
    return this.lastId;
  }

  /** A row that has an id keeps it; false when another message has it, as after a commit that was held back. */
  keep(id: number, qos: Qos, seq: number, bytes: number): boolean {
    if (this.entries.has(id)) return false;
    this.storedIds.delete(id);
    this.entries.set(id, { qos, seq, bytes });
    return true;
  }

  delete(id: number): boolean {
    return this.entries.delete(id);
  }
}
