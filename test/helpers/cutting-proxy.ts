import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

export interface Cut {
  /** Nothing is a step before the client has sent this. */
  readonly after: string;
  /** Occurs in what the client sends when it comes to this step. */
  readonly text: string;
  /** Whether the server gets it all the same. */
  readonly delivered: boolean;
}

/** Stands before a PostgreSQL server and calls `reached` when a client comes to a step; from then on nothing is passed on. */
export async function openCuttingProxy(t: TestContext, port: number, cut: Cut, reached: () => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    let armed = false;
    let over = false;
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => other.destroySoon());
    }
    client.on('data', (bytes) => {
      if (over) return;
      armed ||= bytes.includes(cut.after);
      over = armed && bytes.includes(cut.text);
      if (!over || cut.delivered) upstream.write(bytes);
      if (over) reached();
    });
    upstream.on('data', (bytes) => {
      if (!over) client.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
