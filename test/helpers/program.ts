import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { until } from './wait.js';

const START_MS = 20_000;
const END_MS = 20_000;

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface LogLine {
  readonly level: number;
  readonly msg: string;
}

/** A command of the compiled program as a process of its own, killed with the test if it is still there. */
export class Program {
  /** Lines of stdout that are JSON, parsed. */
  readonly lines: Record<string, unknown>[] = [];
  /** Everything on stderr, for the message of a failure. */
  stderr = '';
  readonly ended: Promise<Ending>;
  private readonly child: ChildProcess;

  constructor(t: TestContext, args: readonly string[]) {
    this.child = spawn(process.execPath, ['dist/src/main.js', ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.child.stderr!.on('data', (chunk) => {
      this.stderr += chunk;
    });
    createInterface(this.child.stdout!).on('line', (line) => {
      if (line.startsWith('{')) this.lines.push(JSON.parse(line));
    });
    this.ended = once(this.child, 'close').then(([code, signal]) => ({ code, signal }));
    t.after(() => this.kill());
  }

  /** Starts a command that says when it is ready, and waits until it does. */
  static async open(t: TestContext, ...args: string[]): Promise<Program> {
    const program = new Program(t, [...args, '--json']);
    await program.ready();
    return program;
  }

  /** Everything on stdout, once it has ended; ask before it does. */
  async text(): Promise<string> {
    let text = '';
    this.child.stdout!.on('data', (chunk) => {
      text += chunk;
    });
    await this.ended;
    return text;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The line that says so. */
  async ready(): Promise<{ mqtt: string[]; web: string | null }> {
    const line = await until(
      'the program to be ready',
      () => {
        if (!this.running) throw new Error(`The program ended instead of starting:\n${this.stderr}`);
        return this.lines.find((candidate) => candidate.ready === true);
      },
      START_MS,
    );
    return line as { mqtt: string[]; web: string | null } & typeof line;
  }

  /** Its `/status`. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever fields they expect
  async status(): Promise<any> {
    const { web } = await this.ready();
    return (await fetch(new URL('/status', web!))).json();
  }

  signal(signal: NodeJS.Signals): void {
    if (this.running) this.child.kill(signal);
  }

  /** SIGTERM, and how it ended. */
  end(graceMs = END_MS): Promise<Ending> {
    this.signal('SIGTERM');
    return this.endsByItself(graceMs);
  }

  /** How it ended; a program that takes longer than `graceMs` is killed, which shows in the answer. */
  async endsByItself(graceMs = END_MS): Promise<Ending> {
    const timer = setTimeout(() => this.signal('SIGKILL'), graceMs);
    const ending = await this.ended;
    clearTimeout(timer);
    return ending;
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.ended;
  }

  /** Log lines from this level on; 40 is a warning. What is no log line counts as one of level 100. */
  logged(levelMin: number): LogLine[] {
    return this.stderr
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (line.startsWith('{') ? (JSON.parse(line) as LogLine) : { level: 100, msg: line }))
      .filter(({ level }) => level >= levelMin);
  }
}
