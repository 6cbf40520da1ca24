/** Configs of a gateway and an ingest as an operator would write them, with waits short enough for tests. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { LINE_ASSETS, LINE_TAGS } from '../../src/sim/line-tags.js';
import { Program } from './program.js';

type Part = Record<string, unknown>;

export interface GatewayParts {
  readonly dir: string;
  /** Port of the cloud, or of the line to it. */
  readonly cloud: number;
  readonly mqtt?: number;
  readonly broker?: Part;
  readonly bridge?: Part;
  readonly upstream?: Part;
  readonly readers?: readonly Part[];
}

/** Writes the config into `dir` and returns its path; data go to `dir` too. JSON is YAML. */
export function gatewayConfig({ dir, cloud, mqtt = 0, broker, bridge, upstream, readers = [] }: GatewayParts): string {
  return write(dir, 'gateway.yaml', {
    gateway: { id: 'line-1', dataDir: './data' },
    broker: { listeners: [{ url: `mqtt://127.0.0.1:${mqtt}`, anonymous: true }], ...broker },
    bridge: { topics: ['plant/#'], ...bridge },
    spool: { diskFreeMin: '16MiB' },
    upstream: {
      url: `mqtt://127.0.0.1:${cloud}`,
      linger: '20ms',
      ackTimeout: '1s',
      connectTimeout: '1s',
      backoff: { min: '20ms', max: '200ms' },
      ...upstream,
    },
    readers,
    web: { listen: '127.0.0.1:0' },
  });
}

export function openGateway(t: TestContext, parts: GatewayParts): Promise<Program> {
  return Program.open(t, 'gateway', '--config', gatewayConfig(parts));
}

export const spoolFile = (dir: string): string => join(dir, 'data', 'spool.db');
export const historianFile = (dir: string): string => join(dir, 'historian', 'historian.db');

export function ingestConfig(dir: string, port: number, source: Part = {}): string {
  return write(dir, 'ingest.yaml', {
    ingest: { id: 'ingest-1', dataDir: './historian' },
    source: { url: `mqtt://127.0.0.1:${port}`, backoff: { min: '20ms', max: '200ms' }, ...source },
    web: { listen: '127.0.0.1:0' },
  });
}

export function openIngestProgram(t: TestContext, dir: string, port: number, source?: Part): Promise<Program> {
  return Program.open(t, 'ingest', '--config', ingestConfig(dir, port, source));
}

/** A reader of the simulated bottling line: every tag of every machine. */
export function lineReader(port: number, every = '100ms'): Part {
  return {
    type: 'modbus',
    url: `tcp://127.0.0.1:${port}`,
    connectTimeout: '500ms',
    timeout: '500ms',
    backoff: { min: '20ms', max: '100ms' },
    devices: LINE_ASSETS.map((asset, i) => ({
      asset,
      unit: i + 1,
      groups: [
        { every, tags: LINE_TAGS.filter((tag) => tag.asset === asset).map(({ asset: _, unit: __, ...tag }) => tag) },
      ],
    })),
  };
}

function write(dir: string, name: string, config: object): string {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, name);
  writeFileSync(path, JSON.stringify(config, null, 2), { mode: 0o600 });
  return path;
}
