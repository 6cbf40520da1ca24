import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historianOptions } from '../../src/cli/historian-options.js';
import { effectiveConfig } from '../../src/config/effective.js';
import { checkConfig, loadIngestConfig } from '../../src/config/loader.js';
import { complaints, configFile } from '../helpers/config-file.js';

const ingest = (historian: string) =>
  `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1884" }\nhistorian: ${historian}\n`;
const URL = 'postgres://user:secret@127.0.0.1/plant';

test('a PostgreSQL historian needs its url, which is a secret', (t) => {
  const file = configFile(t, ingest(`{ type: postgres, url: "${URL}", connections: 8 }`));
  const options = historianOptions(loadIngestConfig(file).historian);
  assert.deepEqual(options, { type: 'postgres', url: URL, connections: 8, futureMaxMs: 300_000 });
  assert.doesNotMatch(JSON.stringify(effectiveConfig(checkConfig(file))), /secret@/);
  assert.deepEqual(complaints(configFile(t, ingest('{ type: postgres }'))), [
    'c.yaml:3:20: historian.type: postgres needs url, the database to use',
  ]);
});

test('keys of the other kind of historian are refused, not passed over', (t) => {
  assert.deepEqual(complaints(configFile(t, ingest(`{ type: postgres, path: a.db, url: "${URL}" }`))), [
    'c.yaml:3:36: historian.path: has no effect with type: postgres; remove it',
  ]);
  assert.deepEqual(complaints(configFile(t, ingest(`{ url: "${URL}" }`))), [
    'c.yaml:3:19: historian.url: has no effect without type: postgres',
  ]);
});
