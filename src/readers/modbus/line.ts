import { createRequire } from 'node:module';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { HoldfastError } from '../../lib/errors.js';
import { deadline } from '../deadline.js';
import { type Endpoint, targetOf } from './endpoint.js';

/** An open way to the devices: bytes in both directions. */
export interface Line {
  readonly stream: Duplex;
  /** Ends it now, without waiting for the other side. */
  hangUp(): void;
}

export interface LineOptions {
  readonly endpoint: Endpoint;
  readonly connectTimeoutMs: number;
  /** Aborts the attempt, not the line. */
  readonly signal: AbortSignal;
}

/** Throws `device.link`; a line that does not stand in time is torn down, so it cannot take a place at the device later. */
export function openLine({ endpoint, connectTimeoutMs, signal }: LineOptions): Promise<Line> {
  const target = targetOf(endpoint);
  return new Promise((resolve, reject) => {
    const { line, standsAt } = endpoint.kind === 'serial' ? serialLine(endpoint) : socketLine(endpoint);
    const settle = () => {
      cancel();
      signal.removeEventListener('abort', onAbort);
      line.stream.off(standsAt, onUp);
    };
    const fail = (error: HoldfastError) => {
      settle();
      line.hangUp();
      reject(error);
    };
    const onUp = () => {
      settle();
      line.stream.off('error', onError);
      resolve(line);
    };
    const onError = (cause: Error) => fail(linkError(`No connection to ${target}`, cause));
    const onAbort = () => fail(linkError('The connection is no longer wanted'));
    const cancel = deadline(connectTimeoutMs, () =>
      fail(linkError(`No connection to ${target} within ${connectTimeoutMs} ms`)),
    );
    line.stream.on(standsAt, onUp);
    // Stays until the line stands: an error that a destroyed socket still reports must not end the process.
    line.stream.on('error', onError);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}

interface Opening {
  readonly line: Line;
  /** The event that says that the line stands. */
  readonly standsAt: string;
}

function socketLine({ host, port }: Extract<Endpoint, { kind: 'tcp' }>): Opening {
  const stream = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
  return { line: { stream, hangUp: () => stream.destroy() }, standsAt: 'connect' };
}

function serialLine({ path, baudRate, parity, dataBits, stopBits }: Extract<Endpoint, { kind: 'serial' }>): Opening {
  const { SerialPort } = serialport();
  const stream = new SerialPort({ path, baudRate, parity, dataBits, stopBits, lock: true, autoOpen: false });
  let wanted = true;
  // It has no destroy of its own, and a port that is still opening can only be closed once it is open.
  const hangUp = () => {
    wanted = false;
    if (stream.isOpen) stream.close(() => {});
  };
  stream.open((error) => {
    if (error) stream.emit('error', error);
    else if (!wanted) stream.close(() => {});
  });
  return { line: { stream, hangUp }, standsAt: 'open' };
}

/** What is used of serialport, which modbus-serial brings along as an optional part. */
interface SerialPortModule {
  readonly SerialPort: new (
    options: object,
  ) => Duplex & {
    readonly isOpen: boolean;
    open(done: (error: Error | null) => void): void;
    close(done: (error: Error | null) => void): void;
  };
}

/** Loaded on demand and from where modbus-serial has it: a gateway without a serial line needs no native binding. */
function serialport(): SerialPortModule {
  const here = createRequire(import.meta.url);
  try {
    return createRequire(here.resolve('modbus-serial'))('serialport') as SerialPortModule;
  } catch (cause) {
    throw new HoldfastError('device.link', 'Serial lines are not available in this installation', {
      cause,
      hint: 'Install again without --omit=optional.',
    });
  }
}

export function linkError(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError('device.link', message, cause === undefined ? {} : { cause });
}

/** A firewall forgets an idle connection after minutes at the earliest. */
const KEEP_ALIVE_MS = 10_000;
