import { loadIngestConfig } from '../config/loader.js';
import { openHistorian } from '../ingest/open-historian.js';
import { type BackfillPlan, type BackfillUnit, backfill as runBackfill } from '../ingest/rollups.js';
import { systemClock } from '../lib/clock.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import type { CliCommand } from './command.js';
import { historianOptions } from './historian-options.js';

interface Flags {
  readonly config: string;
  readonly plan?: boolean;
  readonly run?: boolean;
  readonly json?: boolean;
}

export const backfill: CliCommand = (program, act) => {
  program
    .command('backfill')
    .description('bring hourly rollups up to date where readings came in late, in bounded units, oldest first')
    .requiredOption('--config <file>', 'config file of the ingest, which may be running')
    .option('--plan', 'only say what there is to do')
    .option('--run', 'do it; may be interrupted and started again at any time')
    .option('--json', 'print the plan, or one line per unit, as JSON')
    .action(
      act(async (io, flags: Flags) => {
        if (flags.plan === flags.run) throw new HoldfastError('usage.invalid', 'backfill needs either --plan or --run');
        const historian = await openHistorian(historianOptions(loadIngestConfig(flags.config).historian));
        try {
          const plan = await historian.rollups.plan(systemClock.now());
          if (flags.plan) {
            io.out(flags.json ? JSON.stringify(plan) : planText(plan));
            return EXIT.ok;
          }
          const total = { units: 0, hours: 0, disagreeing: 0 };
          const agreed = await runBackfill(historian.rollups, systemClock.now, io.stop, (unit) => {
            total.units++;
            total.hours += unit.hours - unit.disagreeing;
            total.disagreeing = unit.disagreeing;
            io.out(flags.json ? JSON.stringify(unit) : unitText(unit));
          });
          if (!flags.json) io.out(`done: ${total.hours} hours in ${total.units} units`);
          return agreed && total.disagreeing === 0 ? EXIT.ok : EXIT.finding;
        } finally {
          await historian.close();
        }
      }),
    );
};

function planText({ hours, series, units, from, to, open }: BackfillPlan): string {
  const later = open > 0 ? `; ${open} more are not over yet` : '';
  if (from === null || to === null) return `nothing to do${later}`;
  return `${hours} hours of ${series} series, from ${iso(from)} to ${iso(to)}, in ${units} units${later}`;
}

function unitText({ hours, readings, from, to, disagreeing }: BackfillUnit): string {
  const doubt = disagreeing > 0 ? `; ${disagreeing} got readings meanwhile and stay marked` : '';
  return `${iso(from)} to ${iso(to)}: ${hours} hours, ${readings} readings${doubt}`;
}

const iso = (ms: number) => new Date(ms).toISOString();
