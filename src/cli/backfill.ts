import { loadIngestConfig } from '../config/loader.js';
import { openHistorian } from '../ingest/open-historian.js';
import {
  type BackfillPlan,
  type BackfillUnit,
  type DeviceGap,
  type Rollups,
  backfill as runBackfill,
} from '../ingest/rollups.js';
import { systemClock } from '../lib/clock.js';
import { EXIT, type ExitCode, HoldfastError } from '../lib/errors.js';
import { BackfillProgress, type Progress } from './backfill-progress.js';
import type { CliCommand, Io } from './command.js';
import { historianOptions } from './historian-options.js';
import { duration, number } from './status-text.js';
import { iso, parseSpan } from './window.js';

interface Flags {
  readonly config: string;
  readonly plan?: boolean;
  readonly run?: boolean;
  readonly window: string;
  readonly json?: boolean;
}

const HELP = `
The plan comes from what was written late, per device: its gap from the first to the last hour that is not done, and how many
windows that is (gap / window, rounded up). The work itself is by hours that are marked, so hours between that nobody wrote
to cost nothing. Exit code 1: hours stay marked because their count did not agree; their views are exact all the same.`;

export const backfill: CliCommand = (program, act) => {
  program
    .command('backfill')
    .description('bring hourly rollups up to date where readings came in late, in bounded units, oldest first')
    .requiredOption('--config <file>', 'config file of the ingest, which may be running')
    .option('--plan', 'only say what there is to do')
    .option('--run', 'do it; may be interrupted and started again at any time')
    .option('--window <span>', 'the window in which the plan measures gaps, such as 30m', '1h')
    .option('--json', 'print the plan, or one line per unit with its progress, as JSON')
    .addHelpText('after', HELP)
    .action(
      act(async (io, { config, plan, run, window, json }: Flags) => {
        if (plan === run) throw new HoldfastError('usage.invalid', 'backfill needs either --plan or --run');
        const windowMs = parseSpan(window);
        const historian = await openHistorian(historianOptions(loadIngestConfig(config).historian));
        try {
          return await (plan ? show(io, historian.rollups, windowMs, json) : work(io, historian.rollups, json));
        } finally {
          await historian.close();
        }
      }),
    );
};

async function show(io: Io, rollups: Rollups, windowMs: number, json = false): Promise<ExitCode> {
  const now = systemClock.now();
  const plan = await rollups.plan(now);
  const devices = (await rollups.devices(now)).map((gap) => {
    return { ...gap, windows: Math.ceil((gap.to - gap.from) / windowMs) };
  });
  if (json) io.out(JSON.stringify({ ...plan, windowMs, devices }));
  else for (const line of [planText(plan), ...devices.map(deviceText)]) io.out(line);
  return EXIT.ok;
}

async function work(io: Io, rollups: Rollups, json = false): Promise<ExitCode> {
  const { hours } = await rollups.plan(systemClock.now());
  const progress = new BackfillProgress(hours, systemClock.mono);
  let units = 0;
  let doneHours = 0;
  let disagreeing = 0;
  const agreed = await runBackfill(rollups, systemClock.now, io.stop, (unit) => {
    const state = progress.add(unit);
    units++;
    ({ doneHours } = state);
    ({ disagreeing } = unit);
    if (json) return io.out(JSON.stringify({ ...unit, progress: state }));
    io.out(unitText(unit));
    io.err(progressText(state));
  });
  if (!json) io.out(`${io.stop.aborted ? 'stopped' : 'done'}: ${doneHours} hours in ${units} units`);
  return agreed && disagreeing === 0 ? EXIT.ok : EXIT.finding;
}

function planText({ hours, series, units, from, to, open }: BackfillPlan): string {
  const later = open > 0 ? `; ${open} more are not over yet` : '';
  if (from === null || to === null) return `nothing to do${later}`;
  return `${hours} hours of ${series} series, from ${iso(from)} to ${iso(to)}, in ${units} units${later}`;
}

function deviceText({ device, from, to, windows, buckets, rows }: DeviceGap & { windows: number }): string {
  const gap = `gap ${duration(to - from)}, ${iso(from)} to ${iso(to)}`;
  return `${device}: ${gap}: ${number(windows)} windows, ${number(rows)} rows, ${number(buckets)} hourly buckets`;
}

function unitText({ hours, readings, from, to, disagreeing }: BackfillUnit): string {
  const doubt = disagreeing > 0 ? `; ${disagreeing} got readings meanwhile and stay marked` : '';
  return `${iso(from)} to ${iso(to)}: ${hours} hours, ${readings} readings${doubt}`;
}

function progressText({ doneHours, totalHours, etaMs }: Progress): string {
  const percent = totalHours === 0 ? 100 : Math.floor((100 * doneHours) / totalHours);
  const left = etaMs === null ? '' : `, ${duration(etaMs)} left`;
  return `${percent} %: ${number(doneHours)} of ${number(totalHours)} hours${left}`;
}
