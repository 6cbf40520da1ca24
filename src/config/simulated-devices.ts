import { HoldfastError } from '../lib/errors.js';
import type { GatewayConfig } from './gateway-schema.js';
import type { DeviceConfig } from './modbus-device-schema.js';

/** The Modbus devices of a config, or of its reader with this url. Throws `usage.invalid` when there are none. */
export function simulatedDevices({ readers }: Pick<GatewayConfig, 'readers'>, url?: string): DeviceConfig[] {
  const modbus = readers.filter((reader) => reader.type === 'modbus');
  const chosen = modbus.filter((reader) => url === undefined || reader.url === url);
  if (chosen.length > 0) return chosen.flatMap(({ devices }) => devices);
  const urls = modbus.map((reader) => reader.url).join(', ');
  throw new HoldfastError(
    'usage.invalid',
    `The config has no Modbus reader${url === undefined ? '' : ` with the url ${url}`}`,
    {
      ...(urls === '' ? {} : { hint: `There are ${urls}.` }),
    },
  );
}
