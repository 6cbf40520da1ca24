import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempDir } from './tmp.js';
import { until } from './wait.js';

/** A port that was free a moment ago; for programs that cannot listen on 0. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** A real Mosquitto with the given lines in its configuration, stopped with the test. */
export async function openMosquitto(t: TestContext, program: string, lines: readonly string[] = []): Promise<string> {
  const port = await freePort();
  const config = join(tempDir(t), 'mosquitto.conf');
  writeFileSync(config, [`listener ${port} 127.0.0.1`, 'allow_anonymous true', ...lines, ''].join('\n'));
  const child = spawn(program, ['-c', config], { stdio: 'ignore' });
  t.after(() => stop(child));
  await until('mosquitto to listen', () => {
    if (child.exitCode !== null) throw new Error(`mosquitto ended with ${child.exitCode}`);
    return reachable(port);
  });
  return `mqtt://127.0.0.1:${port}`;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

function reachable(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
