import { createServer } from 'node:net';
import type { DemoPorts } from './configs.js';

/** What each part would like to have. */
const WISHES: DemoPorts = { mqtt: 1883, ws: 9001, web: 8080, plc: 5020, wan: 1885, cloud: 1884, ingestWeb: 8081 };

/** The ports of the demo's parts; one that is taken is replaced by any free one, which its part tells when it has it. */
export class Ports {
  private readonly ports: Record<keyof DemoPorts, number> = { ...WISHES };

  /** As they are now: 0 where a part is still to find one. */
  get now(): DemoPorts {
    return { ...this.ports };
  }

  /** What has been replaced, in words. */
  get replaced(): string[] {
    const names = Object.keys(WISHES) as (keyof DemoPorts)[];
    return names
      .filter((name) => this.ports[name] !== WISHES[name])
      .map((name) => `${name} ${WISHES[name]} is taken, using ${this.ports[name]}`);
  }

  /** Starts a part with the ports it wants, and once more with any free ones: a port can be taken at the last moment. */
  async start<T>(wanted: readonly (keyof DemoPorts)[], start: () => Promise<T>): Promise<T> {
    for (const name of wanted) if (await isTaken(this.ports[name])) this.ports[name] = 0;
    try {
      return await start();
    } catch {
      for (const name of wanted) this.ports[name] = 0;
      return start();
    }
  }

  tell(bound: Partial<DemoPorts>): void {
    Object.assign(this.ports, bound);
  }
}

function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(true));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(false)));
  });
}
