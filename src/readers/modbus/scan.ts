import { HoldfastError } from '../../lib/errors.js';
import type { ModbusClient } from './client.js';
import { causeOf, exceptionCodeOf, isDeviceError, isUnitDown } from './device-error.js';

export interface FoundUnit {
  readonly unit: number;
  /** What it answered to the read: `ok`, or `exception-2` from a device that is there and has no such register. */
  readonly answer: string;
  /** Vendor, product code and revision, as far as it tells [Modbus Application Protocol 1.1b3, 6.21]. */
  readonly identification: readonly string[];
}

/**
 * Asks every unit for one register, and those that answer who they are. Each question is asked once; a unit that answers
 * with an exception is there. Throws `device.link` when the connection is lost.
 */
export async function* scan(
  client: Pick<ModbusClient, 'read' | 'identify'>,
  units: Iterable<number>,
  timeoutMs: number,
  address: number,
  signal: AbortSignal,
): AsyncGenerator<FoundUnit> {
  for (const unit of units) {
    if (signal.aborted) return;
    const answer = await client.read({ fc: 3, unit, address, quantity: 1 }, timeoutMs).then(() => 'ok', wordOf);
    if (answer !== undefined) yield { unit, answer, identification: await identify(client, unit, timeoutMs) };
  }
}

/** Undefined for a unit that is not there. */
function wordOf(error: unknown): string | undefined {
  const code = exceptionCodeOf(error);
  if (code !== undefined) return isUnitDown(code) ? undefined : causeOf(error);
  if (error instanceof HoldfastError && error.code === 'device.timeout') return undefined;
  // Something answers, though not as it should: better shown than hidden.
  if (error instanceof HoldfastError && error.code === 'device.protocol') return error.code;
  throw error;
}

async function identify(client: Pick<ModbusClient, 'identify'>, unit: number, timeoutMs: number): Promise<string[]> {
  const found: string[] = [];
  let next = 0;
  // A device may promise more for ever, and answer with the same object again.
  for (let part = 0; part < PARTS_MAX; part++) {
    const bytes = await ask(client, unit, Uint8Array.of(43, 14, 1, next), timeoutMs);
    if (!bytes || bytes.length < 6) break;
    found.push(...objectsIn(bytes));
    const [more, after] = [bytes[3], bytes[4] as number];
    if (more !== 0xff || after <= next) break;
    next = after;
  }
  if (found.length > 0) return found;
  const bytes = await ask(client, unit, Uint8Array.of(17), timeoutMs);
  return bytes && bytes.length > 1 ? [printable(bytes.subarray(1))].filter((text) => text !== '') : [];
}

async function ask(
  client: Pick<ModbusClient, 'identify'>,
  unit: number,
  pdu: Uint8Array,
  timeoutMs: number,
): Promise<Buffer | undefined> {
  try {
    return await client.identify(unit, pdu, timeoutMs);
  } catch (error) {
    if (isDeviceError(error) && error.code !== 'device.link') return undefined;
    throw error;
  }
}

function objectsIn(bytes: Buffer): string[] {
  const texts: string[] = [];
  let at = 6;
  for (let left = bytes[5] as number; left > 0 && at + 2 <= bytes.length; left--) {
    const length = bytes[at + 1] as number;
    texts.push(printable(bytes.subarray(at + 2, at + 2 + length)));
    at += 2 + length;
  }
  return texts;
}

/** What a device says of itself goes to a terminal; its texts are ASCII [Modbus Application Protocol 1.1b3, 6.21]. */
const printable = (bytes: Buffer): string =>
  bytes
    .toString('latin1')
    .replaceAll(/[^\x20-\x7e]/g, '')
    .trim();

/** Vendor, product and revision fit into one or two answers. */
const PARTS_MAX = 8;
