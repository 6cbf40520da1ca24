import { HoldfastError } from '../../lib/errors.js';

/** How a serial line is driven. */
export interface SerialOptions {
  readonly baudRate: number;
  readonly parity: 'none' | 'even' | 'odd';
  readonly dataBits: 7 | 8;
  readonly stopBits: 1 | 2;
}

/** Where the devices are, and how a PDU is wrapped on the way: MBAP has transaction ids, RTU has none. */
export type Endpoint =
  | { readonly kind: 'tcp'; readonly framing: 'mbap'; readonly host: string; readonly port: number }
  | {
      readonly kind: 'tcp';
      readonly framing: 'rtu';
      readonly host: string;
      readonly port: number;
      /** Of the bus behind the converter; null when it is not known. */
      readonly baudRate: number | null;
    }
  | ({ readonly kind: 'serial'; readonly framing: 'rtu'; readonly path: string } & SerialOptions);

/** [Modbus Messaging on TCP/IP 1.0b, 4.3.1] */
const PORT = 502;
/** Start bit, eight data bits, parity or a second stop bit, stop bit [Modbus over Serial Line 1.02, 2.5.1]. */
const BITS_PER_BYTE = 11;
/** [Modbus over Serial Line 1.02, 2.4.2]: the default that every device must have, and even parity with it. */
export const SERIAL_DEFAULTS: SerialOptions = { baudRate: 19_200, parity: 'even', dataBits: 8, stopBits: 1 };

/**
 * `tcp://HOST[:502]` Modbus TCP, `rtu+tcp://HOST:PORT` RTU frames over a socket (a serial converter), `rtu:///dev/ttyUSB0`
 * or `rtu:///COM3` a serial port of this machine. Throws `config.invalid`.
 */
export function parseEndpoint(url: string, serial?: Partial<SerialOptions>): Endpoint {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const host = parsed?.hostname.replace(/^\[|\]$/g, '') ?? '';
  const port = Number(parsed?.port) || PORT;
  if (parsed?.protocol === 'tcp:' && host !== '') return { kind: 'tcp', framing: 'mbap', host, port };
  if (parsed?.protocol === 'rtu+tcp:' && host !== '')
    return { kind: 'tcp', framing: 'rtu', host, port, baudRate: serial?.baudRate ?? null };
  const path = parsed?.protocol === 'rtu:' ? decodeURIComponent(parsed.pathname).replace(/^\/(?=COM\d+$)/i, '') : '';
  if (path.length > 1 && host === '') return { kind: 'serial', framing: 'rtu', path, ...SERIAL_DEFAULTS, ...serial };
  throw new HoldfastError('config.invalid', `'${url}' is no address of a Modbus device`, {
    values: { url },
    hint: 'Write tcp://HOST, rtu+tcp://HOST:PORT or rtu:///dev/ttyUSB0.',
  });
}

/** `host:port` or the serial device, for logs and the status. */
export function targetOf(endpoint: Endpoint): string {
  return endpoint.kind === 'serial' ? endpoint.path : `${endpoint.host}:${endpoint.port}`;
}

/** What a byte takes on the bus; 0 where that is not known, and on Ethernet it is next to nothing. */
export function byteTimeMsOf(endpoint: Endpoint): number {
  const baudRate = endpoint.framing === 'rtu' ? endpoint.baudRate : null;
  return baudRate === null ? 0 : (BITS_PER_BYTE * 1000) / baudRate;
}

/** The silence that ends a frame: 3.5 characters, and 1.75 ms above 19200 baud [Modbus over Serial Line 1.02, 2.5.1.1]. */
export function frameGapMsOf(endpoint: Endpoint): number {
  if (endpoint.kind !== 'serial') return 0;
  return endpoint.baudRate > 19_200 ? 1.75 : 3.5 * byteTimeMsOf(endpoint);
}
