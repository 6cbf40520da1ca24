import { loadIngestConfig } from '../config/loader.js';
import { type Hole, holesOf, type KnownGap, knownGaps, type SilentDevice, silentDevices } from '../ingest/gaps.js';
import { openRecords } from '../ingest/open-historian.js';
import { systemClock } from '../lib/clock.js';
import { EXIT } from '../lib/errors.js';
import type { CliCommand } from './command.js';
import { historianOptions } from './historian-options.js';
import { duration } from './status-text.js';
import { iso, parseWindow, rangesText, TIME_HELP } from './window.js';

interface Flags {
  readonly config: string;
  readonly from: string;
  readonly to?: string;
  readonly asset?: string;
  readonly all?: boolean;
  readonly json?: boolean;
}

const HELP = `
open: may still close by itself.   late: what came after it arrived long ago, it did not.
lost: it will never come.          filled: it has come since; shown with --all.
A gap is time in which an asset was not read, or readings that were given up; a hole is a range of a gateway's sequence that
has not arrived. A device is silent when nothing has come for ten of its usual intervals (the median of the last twenty) and two minutes; late
if nothing newer has come from its gateway either, so that it may be in the spool. The view gaps_status has gaps and silent
devices for reports; config/oee-availability.sql shows how a report leaves known gaps out of its base.
Exit code 1: there is a hole that is late.`;

export const gaps: CliCommand = (program, act) => {
  program
    .command('gaps')
    .description(
      'list what is known to be missing: recorded gaps, silent devices, and holes in the sequence of a gateway',
    )
    .requiredOption('--config <file>', 'config file of the ingest, which may be running')
    .option('--from <time>', `gaps since: ${TIME_HELP}`, '7d')
    .option('--to <time>', 'gaps until; default: now')
    .option('--asset <id>', 'gaps of this asset only, and no holes: whose readings are in them is not known')
    .option('--all', 'those that were filled, too')
    .option('--json', 'one object per gap and hole')
    .action(
      act(async (io, { config, from, to, asset, all, json }: Flags) => {
        const now = systemClock.now();
        const window = { ...parseWindow(from, to, now), asset };
        const records = await openRecords(historianOptions(loadIngestConfig(config).historian));
        try {
          const found = [
            ...(await knownGaps(records, window)),
            ...(await silentDevices(records, window)),
            ...(asset === undefined ? await holesOf(records, now) : []),
          ];
          const shown = found.filter(({ state }) => all || state !== 'filled');
          for (const one of shown) io.out(json ? JSON.stringify(one) : textOf(one));
          if (!json && shown.length === 0) io.out('no gaps, no silent devices and no holes');
          return found.some(({ kind, state }) => kind === 'hole' && state === 'late') ? EXIT.finding : EXIT.ok;
        } finally {
          await records.close();
        }
      }),
    )
    .addHelpText('after', HELP);
};

function textOf(one: KnownGap | SilentDevice | Hole): string {
  switch (one.kind) {
    case 'gap':
      return gapText(one);
    case 'silent':
      return silentText(one);
    case 'hole':
      return holeText(one);
  }
}

function silentText({ state, asset, from, to, intervalMs, gateway }: SilentDevice): string {
  const usual = `usually every ${duration(intervalMs)}`;
  return `${state.padEnd(6)}  silent  ${asset}  since ${iso(from)}, for ${duration(to - from)}, ${usual}, from ${gateway}`;
}

function gapText({ state, asset, metric, from, to, reason, detail, count, found }: KnownGap): string {
  const whose = metric === null ? asset : `${asset}/${metric}`;
  const counts = count === null ? '' : `, ${count} readings`;
  const here = found > 0 ? `, ${found} of them here` : '';
  return `${state.padEnd(6)}  gap   ${whose}  ${iso(from)} to ${iso(to)}  ${reason}${detail === null ? '' : ` (${detail})`}${counts}${here}`;
}

function holeText({ state, gateway, epoch, from, to, noticedAt, reason }: Hole): string {
  const since = noticedAt === null ? '' : `, noticed ${iso(noticedAt)}`;
  const why = reason === null ? '' : `  ${reason}`;
  return `${state.padEnd(6)}  hole  ${gateway}/${epoch}  seqs ${rangesText([{ from, to }])}${why}${since}`;
}
