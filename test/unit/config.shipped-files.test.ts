import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { effectiveConfig } from '../../src/config/effective.js';
import { configJsonSchema } from '../../src/config/json-schema.js';
import { checkConfig } from '../../src/config/loader.js';
import { configFile } from '../helpers/config-file.js';

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly oneOf?: readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly description?: string;
}

const MINIMAL = {
  gateway: 'gateway: { id: line-1 }\nupstream: { url: "mqtt://127.0.0.1:1884" }\nweb: {}\n',
  ingest: 'ingest: { id: ingest-1 }\nsource: { url: "mqtt://127.0.0.1:1884" }\nweb: {}\n',
};

/** Every key of the schema with its path and description. */
function* keysOf(
  schema: JsonSchema,
  path = '',
): Generator<{ key: string; path: string; description: string | undefined }> {
  for (const part of [schema.items, ...(schema.oneOf ?? []), ...(schema.anyOf ?? [])])
    if (part) yield* keysOf(part, path);
  for (const [key, member] of Object.entries(schema.properties ?? {})) {
    yield { key, path: `${path}.${key}`, description: member.description };
    yield* keysOf(member, `${path}.${key}`);
  }
}

for (const kind of ['gateway', 'ingest'] as const) {
  test(`the shipped JSON Schema of the ${kind} is the generated one (holdfast config schema ${kind})`, () => {
    assert.deepEqual(JSON.parse(readFileSync(`config/${kind}.schema.json`, 'utf8')), configJsonSchema(kind));
  });

  test(`every key of the ${kind} is described and stands in the example`, () => {
    const example = readFileSync(`config/${kind}.yaml`, 'utf8');
    const keys = [...keysOf(configJsonSchema(kind))];
    assert.ok(keys.length > 20);
    assert.deepEqual(
      keys.filter(({ description }) => !description?.endsWith('.')).map(({ path }) => path),
      [],
    );
    assert.deepEqual(
      keys.filter(({ key }) => !new RegExp(`\\b${key}:`).test(example)).map(({ path }) => path),
      [],
    );
    assert.equal(example.split('\n')[0], `# yaml-language-server: $schema=./${kind}.schema.json`);
  });

  test(`the example of the ${kind} is right, and the defaults it shows are the defaults`, (t) => {
    const example = checkConfig(`config/${kind}.yaml`);
    assert.equal(example.kind, kind);
    assert.deepEqual(example.warnings, []);
    const minimal = effectiveConfig(checkConfig(configFile(t, MINIMAL[kind]))) as Record<string, object>;
    const shown = effectiveConfig(example) as Record<string, object>;
    // What is no default: paths start at another folder, and the listeners and readers are examples.
    const comparable = ({ gateway, ingest, readers, ...rest }: Record<string, object>) => ({
      ...rest,
      broker: { ...rest.broker, listeners: [] },
      spool: { ...rest.spool, path: '' },
      historian: { ...rest.historian, path: '' },
    });
    assert.deepEqual(comparable(shown), comparable(minimal));
  });
}
