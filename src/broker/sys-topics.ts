/**
 * `$SYS/broker/…` with the names and forms of Mosquitto, for the tools that read it. A value is published when it has
 * changed, retained in memory only: it is about this run, and does not count against the limits of retained messages.
 */
import type { BrokerStatus } from './broker.js';
import { LoadAverages } from './load-averages.js';
import type { Shared } from './shared.js';

export type SysValues = Readonly<Record<string, string | number>>;

export interface SysSources {
  readonly status: () => BrokerStatus;
  readonly version: string;
  /** Further values below `$SYS/broker/`, of those who know more than the broker. */
  readonly more: () => Promise<SysValues>;
}

export class SysTopics {
  private readonly shared: Shared;
  private readonly sources: SysSources;
  private readonly startedAt: number;
  private readonly loads: LoadAverages;
  private readonly shown = new Map<string, string>();
  private heapPeak = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(shared: Shared, sources: SysSources) {
    this.shared = shared;
    this.sources = sources;
    this.startedAt = shared.clock.mono();
    this.loads = new LoadAverages(this.startedAt);
  }

  start(): void {
    this.publish();
    this.timer = setInterval(() => this.publish(), this.shared.limits.sysIntervalMs);
  }

  close(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private publish(): void {
    this.set(this.values());
    this.sources
      .more()
      .then((values) => {
        if (this.timer) this.set(values);
      })
      // Whoever could not say it now is asked again in the next interval.
      .catch(() => {});
  }

  private values(): SysValues {
    const { counters, clock, retained, router } = this.shared;
    const status = this.sources.status();
    const dropped = Object.values(status.dropped).reduce((sum, count) => sum + count, 0);
    const { heapUsed } = process.memoryUsage();
    this.heapPeak = Math.max(this.heapPeak, heapUsed);
    const away = Math.max(0, status.sessions - status.clients);
    const loads = this.loads.next(
      {
        'messages/received': counters.packetsReceived,
        'messages/sent': counters.packetsSent,
        'publish/received': counters.received,
        'publish/sent': counters.sent,
        'publish/dropped': dropped,
        'bytes/received': counters.receivedBytes,
        'bytes/sent': counters.sentBytes,
        sockets: counters.connections,
        connections: counters.connects,
      },
      clock.mono(),
    );
    return {
      version: `holdfast version ${this.sources.version}`,
      uptime: `${Math.floor((clock.mono() - this.startedAt) / 1000)} seconds`,
      'clients/total': status.clients + away,
      'clients/connected': status.clients,
      'clients/active': status.clients,
      'clients/disconnected': away,
      'clients/inactive': away,
      'clients/maximum': counters.clientsPeak,
      'clients/expired': counters.sessionsExpired,
      'messages/received': counters.packetsReceived,
      'messages/sent': counters.packetsSent,
      'messages/stored': retained.count + status.queuedRows,
      'store/messages/count': retained.count + status.queuedRows,
      'store/messages/bytes': retained.bytes,
      'publish/messages/received': counters.received,
      'publish/messages/sent': counters.sent,
      'publish/messages/dropped': dropped,
      'publish/bytes/received': counters.receivedPayloadBytes,
      'publish/bytes/sent': counters.sentPayloadBytes,
      'bytes/received': counters.receivedBytes,
      'bytes/sent': counters.sentBytes,
      'retained messages/count': retained.count,
      'subscriptions/count': router.count,
      'shared_subscriptions/count': router.sharedCount,
      'heap/current': heapUsed,
      'heap/maximum': this.heapPeak,
      ...Object.fromEntries(Object.entries(loads).map(([name, value]) => [`load/${name}`, value])),
    };
  }

  private set(values: SysValues): void {
    for (const [name, value] of Object.entries(values)) {
      const text = String(value);
      if (this.shown.get(name) === text) continue;
      this.shown.set(name, text);
      this.tell(`$SYS/broker/${name}`, text);
    }
  }

  private tell(topic: string, text: string): void {
    const { clock, retained, router } = this.shared;
    const message = { topic, payload: Buffer.from(text), props: null, deadline: 0, sender: null, user: null };
    retained.set({ ...message, qos: 0, storedAt: clock.now(), isOwn: true });
    for (const { session, retainAsPublished, ids } of router.match(topic, null))
      session.outbox?.send(message, { qos: 0, retain: retainAsPublished, ids });
  }
}
