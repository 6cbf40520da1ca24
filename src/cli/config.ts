import { Argument } from 'commander';
import { stringify } from 'yaml';
import { effectiveConfig } from '../config/effective.js';
import { configJsonSchema } from '../config/json-schema.js';
import { checkConfig } from '../config/loader.js';
import { EXIT } from '../lib/errors.js';
import type { CliCommand } from './command.js';

export const config: CliCommand = (program, act) => {
  const group = program.command('config').description('show what a config file means, or what may stand in one');

  group
    .command('show')
    .description('the effective config: defaults filled in, secrets redacted')
    .argument('<file>', 'config file')
    .option('--json', 'print JSON instead of YAML')
    .action(
      act(async (io, file: string, options: { json?: boolean }) => {
        const effective = effectiveConfig(checkConfig(file));
        io.out(options.json ? JSON.stringify(effective, null, 2) : stringify(effective).trimEnd());
        return EXIT.ok;
      }),
    );

  group
    .command('schema')
    .description('JSON Schema (draft 7) for editors')
    .addArgument(new Argument('[kind]', 'kind of config').choices(['gateway', 'ingest']).default('gateway'))
    .action(
      act(async (io, kind: 'gateway' | 'ingest') => {
        io.out(JSON.stringify(configJsonSchema(kind), null, 2));
        return EXIT.ok;
      }),
    );
};
