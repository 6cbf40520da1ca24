/**
 * Reads MQTT on the recorded sockets of a gateway, and tells its connections apart: a client of the plant speaks first, to
 * the cloud the gateway does.
 */
import mqtt, { type Packet, type Parser } from 'mqtt-packet';
import type { WireEvent } from './recording.js';

export interface PlantConnection {
  readonly door: 'plant';
  readonly clientId: string;
  readonly version: number;
}

export interface CloudConnection {
  readonly door: 'cloud';
}

export type TappedConnection = PlantConnection | CloudConnection;

/** `out`: the gateway sent it. */
export type OnPacket = (connection: TappedConnection, out: boolean, packet: Packet) => void;

interface Tapped {
  readonly parsers: Partial<Record<'sent' | 'received', Parser>>;
  connection: TappedConnection | undefined;
  version: number;
}

export class WireTap {
  private readonly byFd = new Map<number, Tapped>();
  private readonly onPacket: OnPacket;
  private readonly onGone: (connection: TappedConnection) => void;

  constructor(onPacket: OnPacket, onGone: (connection: TappedConnection) => void) {
    this.onPacket = onPacket;
    this.onGone = onGone;
  }

  step(event: WireEvent): void {
    if (event.kind === 'start') for (const fd of [...this.byFd.keys()]) this.forget(fd);
    else if (event.kind === 'hung-up') this.forget(event.fd);
    else this.parser(event.fd, event.kind).parse(event.data);
  }

  private forget(fd: number): void {
    const connection = this.byFd.get(fd)?.connection;
    this.byFd.delete(fd);
    if (connection) this.onGone(connection);
  }

  private parser(fd: number, kind: 'sent' | 'received'): Parser {
    let tapped = this.byFd.get(fd);
    if (!tapped) {
      tapped = { parsers: {}, connection: undefined, version: 4 };
      this.byFd.set(fd, tapped);
    }
    const known = tapped.parsers[kind];
    if (known) return known;
    const parser = mqtt.parser({ protocolVersion: tapped.version });
    tapped.parsers[kind] = parser;
    parser.on('error', (error) => {
      throw error;
    });
    parser.on('packet', (packet) => this.heard(tapped, kind === 'sent', packet));
    return parser;
  }

  private heard(tapped: Tapped, out: boolean, packet: Packet): void {
    if (packet.cmd === 'connect') {
      tapped.version = packet.protocolVersion ?? 4;
      const { version } = tapped;
      tapped.connection = out ? { door: 'cloud' } : { door: 'plant', clientId: packet.clientId, version };
    }
    if (tapped.connection) this.onPacket(tapped.connection, out, packet);
  }
}
