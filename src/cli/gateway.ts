import { loadGatewayConfig } from '../config/loader.js';
import { Gateway } from '../gateway/gateway.js';
import { EXIT } from '../lib/errors.js';
import { createLog } from '../lib/log.js';
import type { CliCommand } from './command.js';
import { aborted } from './until.js';

export const gateway: CliCommand = (program, act) => {
  program
    .command('gateway')
    .description('run the edge side: readers, broker, spool and replay, until SIGTERM')
    .requiredOption('--config <file>', 'config file')
    .option('--json', 'print one line {ready, mqtt, web} once every door is open')
    .action(
      act(async (io, options: { config: string; json?: boolean }) => {
        const config = loadGatewayConfig(options.config);
        const log = createLog(config.log.level, { gateway: config.gateway.id });
        const running = await Gateway.open(config, log);
        io.onReload(() => void running.reload());
        const { mqtt, web } = running.addresses;
        if (options.json) io.out(JSON.stringify({ ready: true, mqtt, web }));
        else io.out(`gateway ${config.gateway.id} is open: ${[...mqtt, web].filter(Boolean).join(', ')}`);
        const ended = await Promise.race([aborted(io.stop), running.failed]);
        await running.close(io.hurry);
        // The disk may also fail while the spool is being closed.
        const failure = ended ?? (await Promise.race([running.failed, undefined]));
        return failure ? failure.exit : EXIT.ok;
      }),
    );
};
