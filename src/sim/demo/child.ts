import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { within } from '../../lib/clock.js';
import { HoldfastError } from '../../lib/errors.js';

const READY_MS = 20_000;
const ANSWER_MS = 5_000;
/** An orderly end first; a child that does not manage it in this time is killed. */
const END_MS = 15_000;
const LOG_TAIL_LINES = 15;

type Line = Record<string, unknown>;

/**
 * One process of the demo: a command of this program with `--json`, which says when it is ready, answers commands line by
 * line, and says at the end how it went. It is in a process group of its own, so that a Ctrl-C in the terminal reaches only
 * the demo, which then ends the others in order.
 */
export class Child {
  readonly name: string;
  readonly ready: Line;
  private readonly child: ChildProcess;
  private readonly lines: Line[];
  private readonly logFile: string;
  private readonly exit: Promise<number | null>;
  private waiting: ((line: Line) => void)[] = [];

  private constructor(name: string, child: ChildProcess, logFile: string, exit: Promise<number | null>, ready: Line) {
    this.name = name;
    this.child = child;
    this.logFile = logFile;
    this.exit = exit;
    this.ready = ready;
    this.lines = [];
  }

  /** Resolves when the process has said that it is ready; its stderr goes to `logFile`. */
  static async start(name: string, program: string, args: readonly string[], logFile: string): Promise<Child> {
    const log = openSync(logFile, 'a');
    const child = spawn(process.execPath, [program, ...args], {
      stdio: ['pipe', 'pipe', log, 'ipc'],
      detached: true,
    });
    closeSync(log);
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    let self: Child | undefined;
    const first = new Promise<Line>((resolve) => {
      reader.on('line', (text) => {
        const line = JSON.parse(text) as Line;
        if (self) self.receive(line);
        else resolve(line);
      });
    });
    const ready = await within(Promise.race([first, exit.then(() => undefined)]), READY_MS, `The start of ${name}`);
    if (!ready) throw new HoldfastError('internal.assertion', `${name} did not start:\n${tail(logFile)}`);
    self = new Child(name, child, logFile, exit, ready);
    void exit.then(() => self?.receive({ ended: true }));
    return self;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Sends one command to a simulator and resolves with its answer. */
  async ask(command: object): Promise<Line> {
    const answer = new Promise<Line>((resolve) => this.waiting.push(resolve));
    this.child.stdin?.write(`${JSON.stringify(command)}\n`);
    return within(answer, ANSWER_MS, `The answer of ${this.name}`);
  }

  /** SIGTERM, and what the process says about itself at its end. Throws when it did not end well. */
  async end(): Promise<Line | undefined> {
    if (this.running) this.child.kill('SIGTERM');
    const killer = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
    const code = await this.exit;
    clearTimeout(killer);
    if (code !== 0) {
      throw new HoldfastError(
        'internal.assertion',
        `${this.name} ended with ${code ?? this.child.signalCode}:\n${tail(this.logFile)}`,
      );
    }
    return this.lines.find((line) => 'final' in line)?.final as Line | undefined;
  }

  kill(): void {
    if (this.running) this.child.kill('SIGKILL');
  }

  private receive(line: Line): void {
    const waiting = this.waiting.shift();
    if (waiting) waiting(line);
    else this.lines.push(line);
  }
}

function tail(file: string): string {
  return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-LOG_TAIL_LINES).join('\n');
}
