/** The configs of the demo's gateway and ingest, as a user would write them. */
import { LINE_ASSETS, LINE_TAGS } from '../line-tags.js';

/** JSON is YAML. */
const yaml = (value: unknown): string => JSON.stringify(value, null, 2);

export interface DemoPorts {
  readonly mqtt: number;
  readonly ws: number;
  readonly web: number;
  readonly plc: number;
  readonly wan: number;
  readonly cloud: number;
  readonly ingestWeb: number;
}

/** Every tag of the line, four times a second. */
const POLL = '250ms';

export function gatewayConfig(ports: DemoPorts, dataDir: string): string {
  return yaml({
    gateway: { id: 'line-1', dataDir },
    broker: {
      listeners: [
        { url: `mqtt://127.0.0.1:${ports.mqtt}`, anonymous: true },
        { url: `ws://127.0.0.1:${ports.ws}`, anonymous: true },
      ],
    },
    bridge: { topics: ['plant/#'] },
    spool: { bytesMax: '256MiB', diskFreeMin: '16MiB' },
    upstream: {
      url: `mqtt://127.0.0.1:${ports.wan}`,
      linger: '250ms',
      ackTimeout: '4s',
      connectTimeout: '3s',
      backoff: { min: '250ms', max: '2s' },
    },
    readers: [
      {
        type: 'modbus',
        url: `tcp://127.0.0.1:${ports.plc}`,
        devices: LINE_ASSETS.map((asset, i) => ({
          asset,
          unit: i + 1,
          groups: [
            {
              every: POLL,
              tags: LINE_TAGS.filter((tag) => tag.asset === asset).map(({ name, at, type, order, scale, length }) => ({
                name,
                at,
                type,
                order,
                ...(scale === undefined ? {} : { scale }),
                ...(length === undefined ? {} : { length }),
              })),
            },
          ],
        })),
      },
    ],
    web: { listen: `127.0.0.1:${ports.web}` },
  });
}

export function ingestConfig(ports: DemoPorts, dataDir: string): string {
  return yaml({
    ingest: { id: 'historian-1', dataDir },
    source: { url: `mqtt://127.0.0.1:${ports.cloud}`, topic: 'edge/+/batch', backoff: { min: '100ms', max: '1s' } },
    web: { listen: `127.0.0.1:${ports.ingestWeb}` },
  });
}
