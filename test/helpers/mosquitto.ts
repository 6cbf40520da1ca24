import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { freePort } from '../../src/sim/free-port.js';
import { tempDir } from './tmp.js';
import { until } from './wait.js';

/** A real Mosquitto, stopped with the test. */
export class Mosquitto {
  readonly port: number;
  private readonly program: string;
  private readonly config: string;
  private child: ChildProcess | undefined;

  private constructor(program: string, config: string, port: number) {
    this.program = program;
    this.config = config;
    this.port = port;
  }

  /** With the given lines in its configuration. */
  static async open(t: TestContext, program: string, lines: readonly string[] = []): Promise<Mosquitto> {
    const port = await freePort();
    const config = join(tempDir(t), 'mosquitto.conf');
    writeFileSync(config, [`listener ${port} 127.0.0.1`, 'allow_anonymous true', ...lines, ''].join('\n'));
    const mosquitto = new Mosquitto(program, config, port);
    t.after(() => mosquitto.end('SIGKILL'));
    await mosquitto.start();
    return mosquitto;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const child = spawn(this.program, ['-c', this.config], { stdio: 'ignore' });
    this.child = child;
    await until('mosquitto to listen', () => {
      if (child.exitCode !== null) throw new Error(`mosquitto ended with ${child.exitCode}`);
      return reachable(this.port);
    });
  }

  /** With SIGTERM it writes its persistence file first, if it has one. */
  async end(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  }
}

/** The address of a Mosquitto that is never stopped by its test. */
export async function openMosquitto(t: TestContext, program: string, lines: readonly string[] = []): Promise<string> {
  return (await Mosquitto.open(t, program, lines)).url;
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
