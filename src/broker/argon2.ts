/**
 * Argon2id [RFC 9106] entries of password files, as Mosquitto 2.1 and `argon2` write them:
 * `$argon2id$v=19$m=47104,t=1,p=1$salt$hash`. One check costs the time and the memory that its line says, so both are
 * bounded when the line is read, and the work is done in a thread of its own: a broker stands still for no login.
 */
import { Worker } from 'node:worker_threads';
import { HoldfastError, messageOf } from '../lib/errors.js';

export interface Argon2Cost {
  readonly memoryKiB: number;
  readonly passes: number;
  readonly lanes: number;
}

export interface Argon2Hash extends Argon2Cost {
  readonly kind: 'argon2id';
  readonly salt: Buffer;
  readonly hash: Buffer;
}

export interface Argon2Request extends Argon2Cost {
  readonly id: number;
  readonly password: Uint8Array;
  readonly salt: Uint8Array;
  readonly hashBytes: number;
}
export type Argon2Reply = { readonly id: number } & ({ readonly hash: Uint8Array } | { readonly problem: string });

/** What Mosquitto 2.1 writes [mosquitto_passwd(1)]: 46 MiB and a fifth of a second. */
export const ARGON2_COST: Argon2Cost = { memoryKiB: 47_104, passes: 1, lanes: 1 };
/** What it takes for salt and hash of new entries. */
export const ARGON2_BYTES = 64;
/** A quarter of the memory of a small gateway; twice what the libraries of other languages take by default. */
const MEMORY_KIB_MAX = 128 * 1024;
/** Memory times passes: about ten seconds of work for one login. Beyond, a line of the file would be an attack. */
const WORK_KIB_MAX = 2 * 1024 * 1024;
/** More lanes than this share nothing on the machines this runs on, and each needs 8 KiB [RFC 9106 3.1]. */
const LANES_MAX = 64;
const MEMORY_KIB_PER_LANE = 8;
const BYTES_MIN = 8;
const BYTES_MAX = 128;
/** A thread that has had no work for so long ends, and its memory with it. */
const IDLE_MS = 30_000;

/** The text after `$argon2id$`, or in words why it is no hash that can be checked. */
export function parseArgon2(fields: readonly string[]): Argon2Hash | string {
  const [version, cost = '', saltText, hashText, ...rest] = fields;
  if (version !== 'v=19') return 'only version 19 of argon2id is known: expected $argon2id$v=19$m=…,t=…,p=…$salt$hash';
  const [, m, t, p] = /^m=(\d{1,10}),t=(\d{1,10}),p=(\d{1,10})$/.exec(cost) ?? [];
  if (m === undefined) return 'the cost of argon2id must be m=…,t=…,p=… with whole numbers';
  const [memoryKiB, passes, lanes] = [Number(m), Number(t), Number(p)];
  if (lanes < 1 || lanes > LANES_MAX) return `p must be from 1 to ${LANES_MAX}`;
  if (memoryKiB < MEMORY_KIB_PER_LANE * lanes) return `m must be at least ${MEMORY_KIB_PER_LANE} times p`;
  if (memoryKiB > MEMORY_KIB_MAX) return `m must be at most ${MEMORY_KIB_MAX} KiB, or logins use up the memory`;
  if (passes < 1 || memoryKiB * passes > WORK_KIB_MAX)
    return `t must be at least 1, and m times t at most ${WORK_KIB_MAX}, or one login takes more than ten seconds`;
  if (saltText === undefined || hashText === undefined || rest.length > 0) return 'the hash is incomplete';
  const [salt, hash] = [fromBase64(saltText), fromBase64(hashText)];
  if (!salt || !hash) return 'salt or hash is not base64 without padding';
  for (const [name, { length }] of Object.entries({ salt, hash }))
    if (length < BYTES_MIN || length > BYTES_MAX)
      return `the ${name} has ${length} bytes, expected ${BYTES_MIN} to ${BYTES_MAX}`;
  return { kind: 'argon2id', memoryKiB, passes, lanes, salt, hash };
}

export function formatArgon2({ memoryKiB, passes, lanes, salt, hash }: Argon2Hash): string {
  return `$argon2id$v=19$m=${memoryKiB},t=${passes},p=${lanes}$${toBase64(salt)}$${toBase64(hash)}`;
}

interface Job {
  readonly resolve: (hash: Uint8Array) => void;
  readonly reject: (error: HoldfastError) => void;
}

/** The thread; it starts with the first job and never keeps the process alive. Who asks bounds the jobs that wait. */
class Argon2Thread {
  private readonly jobs = new Map<number, Job>();
  private worker: Worker | undefined;
  private idle: NodeJS.Timeout | undefined;
  private nextId = 1;

  /** Rejects with `internal.assertion` when it could not be worked out, for want of memory above all. */
  derive(password: Buffer, salt: Buffer, cost: Argon2Cost, hashBytes: number): Promise<Uint8Array> {
    clearTimeout(this.idle);
    this.worker ??= this.start();
    const { memoryKiB, passes, lanes } = cost;
    const id = this.nextId++;
    const request: Argon2Request = { id, password, salt, memoryKiB, passes, lanes, hashBytes };
    return new Promise((resolve, reject) => {
      this.jobs.set(id, { resolve, reject });
      this.worker?.ref();
      this.worker?.postMessage(request);
    });
  }

  private start(): Worker {
    const worker = new Worker(new URL('./argon2-worker.js', import.meta.url), { name: 'argon2' });
    worker.on('message', (reply: Argon2Reply) => this.settle(reply));
    worker.on('error', (error) => this.end(worker, messageOf(error)));
    worker.on('exit', () => this.end(worker, 'its thread ended'));
    return worker;
  }

  private settle(reply: Argon2Reply): void {
    const job = this.jobs.get(reply.id);
    this.jobs.delete(reply.id);
    if ('hash' in reply) job?.resolve(reply.hash);
    else job?.reject(failure(reply.problem));
    if (this.jobs.size > 0) return;
    this.worker?.unref();
    this.idle = setTimeout(() => {
      const { worker } = this;
      this.worker = undefined;
      void worker?.terminate();
    }, IDLE_MS).unref();
  }

  private end(worker: Worker, cause: string): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    for (const { reject } of this.jobs.values()) reject(failure(cause));
    this.jobs.clear();
  }
}

const thread = new Argon2Thread();

/** The hash of a password, worked out in the thread. */
export function deriveArgon2(password: Buffer, salt: Buffer, cost: Argon2Cost, bytes: number): Promise<Uint8Array> {
  return thread.derive(password, salt, cost, bytes);
}

function failure(cause: string): HoldfastError {
  return new HoldfastError('internal.assertion', `argon2id could not be worked out: ${cause}`);
}

function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length > 0 && toBase64(bytes) === text ? bytes : undefined;
}

/** Without padding, as in every hash of this form. */
function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64').replace(/=+$/, '');
}
