/** An OPC UA reader's config as its driver and the report filter take it. */
import type { OpcuaReaderConfig } from '../config/reader-schema.js';
import { readSecret } from '../config/secret.js';
import type { ReportRule, ReportRules } from '../readers/change-filter.js';
import type { Identity, OpcuaOptions } from '../readers/opcua/options.js';

/** `folder` is where the certificates of all OPC UA readers are. */
export function opcuaOptions(config: OpcuaReaderConfig, folder: string): OpcuaOptions {
  return {
    url: config.url,
    mode: config.security.mode,
    policy: config.security.policy,
    identity: () => identityOf(config),
    pkiDir: folder,
    connectTimeoutMs: config.connectTimeout,
    timeoutMs: config.timeout,
    keepAliveMs: config.keepAlive,
    backoff: { minMs: config.backoff.min, maxMs: config.backoff.max },
    devices: config.devices.map(({ asset, groups }) => ({
      asset,
      groups: groups.map(({ every, sampling = every, mode, queue, heartbeat, tags }) => ({
        everyMs: every,
        samplingMs: sampling,
        mode,
        queue,
        heartbeatMs: heartbeat,
        tags: tags.map(({ name, node, write }) => ({ name, node, ...(write ? { write: writeRange(write) } : {}) })),
      })),
    })),
  };
}

/** Every tag is reported by exception: that is what a server does with a subscribed one. */
export function opcuaRules({ devices }: Pick<OpcuaReaderConfig, 'devices'>): ReportRules {
  return new Map(
    devices.map(({ asset, groups }) => [
      asset,
      new Map(
        groups.flatMap(({ tags, heartbeat }) =>
          tags.map(({ name, deadband = 0 }): [string, ReportRule] => [name, { deadband, heartbeatMs: heartbeat }]),
        ),
      ),
    ]),
  );
}

function identityOf({ username, password, userCert, userKey }: OpcuaReaderConfig): Identity {
  if (username !== undefined && password) return { kind: 'user', username, password: readSecret(password) };
  if (userCert !== undefined && userKey !== undefined) return { kind: 'certificate', cert: userCert, key: userKey };
  return { kind: 'anonymous' };
}

function writeRange({ min, max }: { min?: number | undefined; max?: number | undefined }): {
  min?: number;
  max?: number;
} {
  return { ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) };
}
