/** `$SYS/broker/…` as Mosquitto names it, for the tools that read it. Kept in memory only: it is about this run. */
import type { BrokerStatus } from './broker.js';
import type { Shared } from './shared.js';

export class SysTopics {
  private readonly shared: Shared;
  private readonly status: () => BrokerStatus;
  private readonly version: string;
  private readonly startedAt: number;
  private timer: NodeJS.Timeout | undefined;

  constructor(shared: Shared, status: () => BrokerStatus, version: string) {
    this.shared = shared;
    this.status = status;
    this.version = version;
    this.startedAt = shared.clock.mono();
  }

  start(): void {
    this.publish();
    this.timer = setInterval(() => this.publish(), this.shared.limits.sysIntervalMs);
  }

  close(): void {
    clearInterval(this.timer);
  }

  private publish(): void {
    const status = this.status();
    const uptimeS = Math.floor((this.shared.clock.mono() - this.startedAt) / 1000);
    const values: Record<string, string | number> = {
      version: `holdfast version ${this.version}`,
      uptime: `${uptimeS} seconds`,
      'clients/connected': status.clients,
      'clients/total': status.sessions,
      'messages/received': status.received,
      'messages/sent': status.sent,
      'bytes/received': status.receivedBytes,
      'bytes/sent': status.sentBytes,
      'retained messages/count': status.retained,
      'subscriptions/count': status.subscriptions,
    };
    for (const [name, value] of Object.entries(values)) this.set(`$SYS/broker/${name}`, String(value));
  }

  private set(topic: string, text: string): void {
    const { retained, router } = this.shared;
    const message = { topic, payload: Buffer.from(text), props: null, deadline: 0, sender: null, user: null };
    retained.set({ ...message, qos: 0 });
    for (const { session, retainAsPublished, ids } of router.match(topic, null))
      session.outbox?.send(message, { qos: 0, retain: retainAsPublished, ids });
  }
}
