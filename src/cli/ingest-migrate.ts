import type { Command } from 'commander';
import { loadIngestConfig } from '../config/loader.js';
import { openHistorian } from '../ingest/open-historian.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import type { Act } from './command.js';
import { historianOptions } from './historian-options.js';

/** For a database whose owner's password is kept away from the ingest: afterwards the ingest starts without it. */
export function migrateCommand(ingest: Command, act: Act): void {
  ingest
    .command('migrate')
    .description('bring the schema of the historian up to date and end; needs its owner (historian.ownerUrl, or url)')
    .option('--config <file>', 'config file, which may be another one than that of the ingest (required)')
    .action(
      act(async (io, _: unknown, command: Command) => {
        const { config } = command.optsWithGlobals<{ config?: string }>();
        if (config === undefined)
          throw new HoldfastError('usage.invalid', 'holdfast ingest migrate needs --config FILE');
        const historian = await openHistorian(historianOptions(loadIngestConfig(config).historian));
        await historian.close();
        io.out('the schema is up to date');
        return EXIT.ok;
      }),
    );
}
