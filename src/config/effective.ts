import { assertNever } from '../lib/assert.js';
import { gatewaySchema } from './gateway-schema.js';
import { ingestSchema } from './ingest-schema.js';
import { mapKinds } from './kinds.js';
import type { Config } from './loader.js';
import type { Secret } from './secret.js';
import { formatDuration, formatSize } from './units.js';

/**
 * The config as it takes effect, in the form of the file: defaults filled in, durations and sizes in units, paths
 * absolute, and in place of a literal secret a mark that it is there.
 */
export function effectiveConfig({ kind, config }: Config): unknown {
  return mapKinds(kind === 'gateway' ? gatewaySchema : ingestSchema, config, (kind, value) => {
    switch (kind) {
      case 'duration':
        return formatDuration(value as number);
      case 'size':
        return formatSize(value as number);
      case 'path':
        return value;
      case 'secret':
        return (value as Secret).toJSON();
      default:
        return assertNever(kind, 'kind of value');
    }
  });
}
