import { createServer } from 'node:net';
import type { DemoPorts } from './configs.js';

/** What each part would like to have; what is taken is replaced by a free one. */
const WISHES: DemoPorts = { mqtt: 1883, ws: 9001, web: 8080, plc: 5020, wan: 1885, cloud: 1884, ingestWeb: 8081 };

export async function choosePorts(): Promise<{ ports: DemoPorts; replaced: readonly string[] }> {
  const ports: Record<string, number> = {};
  const replaced: string[] = [];
  for (const [name, wish] of Object.entries(WISHES)) {
    const taken = new Set(Object.values(ports));
    let port = await tryPort(wish);
    while (port === undefined || taken.has(port)) port = await tryPort(0);
    if (port !== wish) replaced.push(`${name} ${wish} is taken, using ${port}`);
    ports[name] = port;
  }
  return { ports: ports as unknown as DemoPorts, replaced };
}

/** The port if it can be listened on, undefined if not; 0 finds a free one. */
function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => {
      const bound = (server.address() as { port: number }).port;
      server.close(() => resolve(bound));
    });
  });
}
