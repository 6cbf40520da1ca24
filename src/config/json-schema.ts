import * as z from 'zod';
import { gatewaySchema } from './gateway-schema.js';
import { ingestSchema } from './ingest-schema.js';
import type { Config } from './loader.js';

/** JSON Schema (draft 7, which editors understand best) of what may stand in a config file of this kind. */
export function configJsonSchema(kind: Config['kind']): object {
  const schema = kind === 'gateway' ? gatewaySchema : ingestSchema;
  const { $schema, ...rest } = z.toJSONSchema(schema, { target: 'draft-7', io: 'input' });
  return { $schema, title: `Holdfast ${kind}`, ...rest };
}
