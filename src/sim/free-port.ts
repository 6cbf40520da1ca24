import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel hands out by itself, which begin at 32768 on Linux and at 49152 elsewhere. One of those
 * would not stay free: whoever asks for any port may get it while the one it belongs to is absent.
 */
const PORTS = { first: 10_240, last: 32_000 } as const;

let next = randomInt(PORTS.first, PORTS.last);

/** Another port every time, which may be in use. */
export function candidatePort(): number {
  next = next >= PORTS.last ? PORTS.first : next + 1;
  return next;
}

/** A port of 127.0.0.1 that is free, and stays so but for those who name it; for programs that cannot listen on 0. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = candidatePort();
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
