import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { connectAsync, type MqttClient } from 'mqtt';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { Gateway } from '../../src/gateway/gateway.js';
import type { Clock } from '../../src/lib/clock.js';
import { type Log, silentLog } from '../../src/lib/log.js';

export interface GatewayParts {
  readonly spool?: object;
  readonly upstreamPort?: number;
  readonly upstream?: object;
  readonly bridge?: object;
  readonly log?: Log;
  readonly clock?: Clock;
}

/** Nobody listens there. */
const NOWHERE = 9;

/** The config file of a gateway whose data lie in `dir`, with waits short enough for tests. */
export function gatewayConfigFile(dir: string, { spool = {}, upstreamPort = NOWHERE, upstream, bridge }: GatewayParts) {
  const file = join(dir, 'gateway.json');
  const config = {
    gateway: { id: 'line-1', dataDir: join(dir, 'data') },
    broker: { listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: true }] },
    spool: { diskFreeMin: '0B', ...spool },
    upstream: {
      url: `mqtt://127.0.0.1:${upstreamPort}`,
      onNoSubscribers: 'accept',
      linger: '5ms',
      backoff: { min: '20ms', max: '100ms' },
      ...upstream,
    },
    ...(bridge ? { bridge } : {}),
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

/** A whole gateway in this process; closed with the test unless it was closed before. */
export async function openGateway(t: TestContext, dir: string, parts: GatewayParts = {}): Promise<Gateway> {
  const gateway = await Gateway.open(
    loadGatewayConfig(gatewayConfigFile(dir, parts)),
    parts.log ?? silentLog,
    parts.clock,
  );
  t.after(async () => {
    const { spool, causes } = await gateway.status();
    await gateway.close(AbortSignal.abort());
    assert.ok(spool.balanced, `the spool adds up when a test ends: ${causes.join('; ')}`);
  });
  return gateway;
}

export function mqttUrl(gateway: Gateway): string {
  return gateway.addresses.mqtt[0] as string;
}

/** A client that is gone with the test. */
export async function plantClient(
  t: TestContext,
  gateway: Gateway,
  clientId = 'plc',
  protocolVersion: 4 | 5 = 4,
): Promise<MqttClient> {
  const client = await connectAsync(mqttUrl(gateway), { clientId, clean: false, reconnectPeriod: 50, protocolVersion });
  client.on('error', () => {});
  t.after(() => client.endAsync(true));
  return client;
}
