import type { IngestConfig } from '../config/ingest-schema.js';
import { loadIngestConfig } from '../config/loader.js';
import { readSecret } from '../config/secret.js';
import { Ingest, type IngestOptions } from '../ingest/ingest.js';
import { IngestPages } from '../ingest/pages.js';
import type { IngestStatus } from '../ingest/status.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import { createLog } from '../lib/log.js';
import type { CliCommand } from './command.js';
import { historianOptions } from './historian-options.js';
import { keptCommands } from './ingest-kept.js';
import { migrateCommand } from './ingest-migrate.js';
import { ingestStatusCommand } from './ingest-status.js';
import { brokerOf } from './source-options.js';
import { aborted } from './until.js';

export const ingest: CliCommand = (program, act) => {
  // A required option would be required of its subcommands, too.
  const command = program
    .command('ingest')
    .description('run the cloud side: batches from the broker into the historian, until SIGTERM')
    .option('--config <file>', 'config file (required)')
    .option('--json', 'print one line {ready, web, http} once it is open, and the final status')
    .action(
      act(async (io, options: { config?: string; json?: boolean }) => {
        if (options.config === undefined)
          throw new HoldfastError('usage.invalid', 'holdfast ingest needs --config FILE');
        const config = loadIngestConfig(options.config);
        const log = createLog(config.log.level, { ingest: config.ingest.id });
        const running = await Ingest.open(optionsOf(config), log);
        let failure: HoldfastError | undefined;
        let final: IngestStatus;
        try {
          const pages = config.web && (await IngestPages.open(config.web.listen, running, log));
          const web = pages?.url ?? null;
          const http = running.httpUrl;
          if (options.json) io.out(JSON.stringify({ ready: true, web, http }));
          else io.out(`ingest ${config.ingest.id} is open${web ? `: ${web}` : ''}`);
          failure = (await Promise.race([aborted(io.stop), running.failed])) ?? undefined;
          await pages?.close();
          final = running.status();
        } finally {
          await running.close();
        }
        if (options.json) io.out(JSON.stringify({ final }));
        return failure ? failure.exit : EXIT.ok;
      }),
    );
  ingestStatusCommand(command, act);
  keptCommands(command, act);
  migrateCommand(command, act);
};

function optionsOf({ ingest, source, historian, reconcile }: IngestConfig): IngestOptions {
  const { http } = ingest;
  return {
    historian: historianOptions(historian),
    rollupEveryMs: historian.rollupEvery,
    outages: { afterMs: reconcile.afterOutage, withinMs: reconcile.within },
    ...(source && { broker: brokerOf(source), acks: { policy: source.ack, topic: source.ackTopic } }),
    ...(http && { http: { ...http, tokens: http.tokens && (() => http.tokens!.map(readSecret)) } }),
  };
}
