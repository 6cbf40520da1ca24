import type { Command } from 'commander';
import { EXIT } from '../lib/errors.js';
import { type FleetStats, runFleet } from '../sim/fleet/fleet.js';
import type { Endpoint } from '../sim/wan.js';
import type { Act } from './command.js';
import { endpoint, integer, milliseconds } from './flags.js';
import { number } from './status-text.js';

interface Flags {
  readonly to: Endpoint;
  readonly gateways: number;
  readonly fresh: number;
  readonly backlog: number;
  readonly interval: number;
  readonly metrics: number;
  readonly live: number;
  readonly batchRows: number;
  readonly window: number;
  readonly cut: number;
  readonly json?: boolean;
}

const HELP = `
Each gateway sends one reading of each metric every --interval, first those of --backlog, and goes on for --live. It ends when
the broker has acknowledged everything; whether the historian has it is for holdfast reconcile to say.`;

export function simulateFleet(group: Command, act: Act): void {
  group
    .command('fleet')
    .description('gateways that come back at once after an outage they shared, with hours of backlog')
    .requiredOption('--to <host:port>', 'the cloud broker', endpoint)
    .option('--gateways <number>', 'with a backlog', integer(0, 100_000), 100)
    .option('--fresh <number>', 'without one, to see whether their readings stay fresh', integer(0, 100_000), 10)
    .option('--backlog <duration>', 'length of the outage, such as 30m or 6h', milliseconds('0ms', '7d'), 3_600_000)
    .option('--interval <duration>', 'between two readings of a metric', milliseconds('0ms', '7d'), 10_000)
    .option('--metrics <number>', 'of each gateway', integer(1, 1_000), 4)
    .option('--live <duration>', 'how long the plants go on', milliseconds('0ms', '7d'), 30_000)
    .option('--batch-rows <number>', 'rows of a batch', integer(1, 10_000), 500)
    .option('--window <number>', 'batches of a gateway on their way at a time', integer(1, 100), 4)
    .option('--cut <percent>', 'gateways whose line fails once more while they catch up', integer(0, 100), 20)
    .option('--json', 'one object {tick} a second, then {final}')
    .addHelpText('after', HELP)
    .action(
      act(async (io, { to, backlog, interval, live, cut, json, ...counts }: Flags) => {
        const stats = await runFleet({
          ...counts,
          host: to.host,
          port: to.port,
          backlogMs: backlog,
          intervalMs: interval,
          liveMs: live,
          cutShare: cut / 100,
          stop: io.stop,
          onTick: (tick) => (json ? io.out(JSON.stringify({ tick })) : io.err(line(tick))),
        });
        io.out(json ? JSON.stringify({ final: stats }) : line(stats));
        return stats.done ? EXIT.ok : EXIT.finding;
      }),
    );
}

function line({
  readings,
  rowsAcked,
  drained,
  gateways,
  batches,
  repeatedBatches,
  drainSeconds,
  freshAgeMs,
}: FleetStats): string {
  return [
    `${number(readings)} readings, ${number(rowsAcked)} rows acknowledged, ${drained} of ${gateways} caught up (p95 ${drainSeconds.p95 ?? '–'} s)`,
    `${number(batches)} batches, ${number(repeatedBatches)} sent again`,
    `readings of the others ${freshAgeMs.p95 ?? '–'} ms old at p95`,
  ].join('; ');
}
