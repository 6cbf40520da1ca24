/** What is done with a device before a gateway reads it: look at registers, find units, see the plan of a config. */
import type { GatewayConfig } from '../config/gateway-schema.js';
import { HoldfastError } from '../lib/errors.js';
import { parseAddress, READ_FUNCTION } from '../readers/modbus/address.js';
import { type Reading, readingsOf, textsOf } from '../readers/modbus/all-orders.js';
import { ModbusClient } from '../readers/modbus/client.js';
import { parseEndpoint, type SerialOptions } from '../readers/modbus/endpoint.js';
import { type PlanReport, planReport } from '../readers/modbus/plan-report.js';
import { type FoundUnit, scan } from '../readers/modbus/scan.js';
import { modbusOptions } from './modbus-options.js';

export interface DeviceLine {
  readonly url: string;
  readonly serial: Partial<SerialOptions>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface RegisterView {
  readonly at: string;
  readonly hex: string;
  /** Empty for coils and inputs, whose bits are in `bits`. */
  readonly readings: readonly Reading[];
  readonly texts: ReturnType<typeof textsOf>;
  readonly bits: readonly boolean[];
}

/** One read, shown as every type in every order. Throws `config.invalid` for the address, and as a read of the client does. */
export async function viewRegisters(
  line: DeviceLine,
  unit: number,
  at: string,
  quantity: number,
): Promise<RegisterView> {
  const { table, address, bits } = parseAddress(at, 'plc1');
  if (bits) throw new HoldfastError('usage.invalid', `${at} is a part of a register; ask for the whole one`);
  const fc = READ_FUNCTION[table];
  if (quantity < 1 || quantity > (fc <= 2 ? 2000 : 125) || address + quantity > 0x10000)
    throw new HoldfastError('usage.invalid', `${quantity} from ${at} are more than one read can have`);
  const data = await withClient(line, (client) => client.read({ fc, unit, address, quantity }, line.timeoutMs));
  const view = { at: `${table}:${address}`, hex: data.toString('hex') };
  if (fc > 2) return { ...view, readings: readingsOf(data), texts: textsOf(data), bits: [] };
  const states = Array.from({ length: quantity }, (_, i) => (((data[i >>> 3] as number) >>> (i & 7)) & 1) === 1);
  return { ...view, readings: [], texts: [], bits: states };
}

/** Every unit that answers, as it is found. */
export async function scanUnits(
  line: DeviceLine,
  units: readonly number[],
  address: number,
  onFound: (found: FoundUnit) => void,
): Promise<void> {
  await withClient(line, async (client) => {
    for await (const found of scan(client, units, line.timeoutMs, address, line.signal)) onFound(found);
  });
}

/** What each reader of a config will ask, and how busy its line will be. */
export function plansOf({ readers }: Pick<GatewayConfig, 'readers'>, rttMs: number): PlanReport[] {
  return readers.flatMap((reader) => (reader.type === 'modbus' ? [planReport(modbusOptions(reader), rttMs)] : []));
}

async function withClient<T>(line: DeviceLine, work: (client: ModbusClient) => Promise<T>): Promise<T> {
  const endpoint = parseEndpoint(line.url, line.serial);
  const client = await ModbusClient.connect(
    { endpoint, connectTimeoutMs: CONNECT_TIMEOUT_MS, signal: line.signal },
    { onDown: () => {}, onLate: () => {} },
  );
  try {
    return await work(client);
  } finally {
    client.close();
  }
}

const CONNECT_TIMEOUT_MS = 5000;
