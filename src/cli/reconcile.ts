import { loadIngestConfig } from '../config/loader.js';
import { openRecords } from '../ingest/open-historian.js';
import { type HourResult, reconcile as run } from '../ingest/reconcile.js';
import { systemClock } from '../lib/clock.js';
import { EXIT } from '../lib/errors.js';
import type { CliCommand } from './command.js';
import { historianOptions } from './historian-options.js';
import { requestMissing } from './request-missing.js';
import { iso, parseWindow, rangesText, TIME_HELP } from './window.js';

interface Flags {
  readonly config: string;
  readonly from: string;
  readonly to?: string;
  readonly asset?: string;
  readonly json?: boolean;
  readonly request?: boolean;
}

const HELP = `
Each gateway counts what it has made durable, per asset, metric and hour of the device's time, before it leaves; the counts
come in the stream. A window is complete when exactly the counted readings are in the store. Exit code 1: something is
missing, extra or different.`;

export const reconcile: CliCommand = (program, act) => {
  program
    .command('reconcile')
    .description('prove that the store holds what the gateways have counted, hour by hour')
    .requiredOption('--config <file>', 'config file of the ingest, which may be running')
    .requiredOption('--from <time>', `start, widened to the hour: ${TIME_HELP}`)
    .option('--to <time>', 'end, not in it; default: now')
    .option('--asset <id>', 'this asset only')
    .option('--request', 'first ask the gateways for what has not arrived, and wait for their answers')
    .option('--json', 'one object per hour and metric, then one with the totals')
    .addHelpText('after', HELP)
    .action(
      act(async (io, { config, from, to, asset, json, request }: Flags) => {
        const window = { ...parseWindow(from, to, systemClock.now()), asset };
        const { historian, source } = loadIngestConfig(config);
        const records = await openRecords(historianOptions(historian));
        try {
          if (request) await requestMissing(source, records, io, json);
          const totals = { complete: 0, findings: 0, uncounted: 0, expected: 0, missing: 0, extra: 0 };
          const groups = new Map<string, HourResult[]>();
          const unknown = new Map<string, HourResult['unknown']>();
          for await (const result of run(records, window)) {
            add(totals, result);
            if (result.unknown.length > 0) unknown.set(`${result.gateway}/${result.epoch}`, result.unknown);
            if (json) io.out(JSON.stringify(result));
            else groups.set(groupOf(result), [...(groups.get(groupOf(result)) ?? []), result]);
          }
          for (const group of groups.values()) for (const line of linesOf(group)) io.out(line);
          for (const [source, ranges] of json ? [] : unknown)
            io.out(`${source}: seqs ${rangesText(ranges)} have not arrived; they may hold more of this window`);
          io.out(json ? JSON.stringify({ totals }) : totalsText(totals));
          return totals.findings > 0 ? EXIT.finding : EXIT.ok;
        } finally {
          await records.close();
        }
      }),
    );
};

type Totals = Record<'complete' | 'findings' | 'uncounted' | 'expected' | 'missing' | 'extra', number>;

function add(totals: Totals, { verdict, expected, missing, extra }: HourResult): void {
  totals[verdict === 'complete' || verdict === 'uncounted' ? verdict : 'findings']++;
  totals.expected += expected;
  totals.missing += missing;
  totals.extra += extra;
}

const groupOf = ({ hour, asset, gateway, epoch }: HourResult) => `${hour}\0${asset}\0${gateway}\0${epoch}`;

/** One line per hour and asset, and one more for each metric with a finding. */
function linesOf(group: readonly HourResult[]): string[] {
  const { hour, asset, gateway } = group[0] as HourResult;
  const findings = group.filter(({ verdict }) => verdict !== 'complete' && verdict !== 'uncounted');
  const counted = group.reduce((sum, { expected }) => sum + expected, 0);
  const later = group.reduce((sum, { uncounted }) => sum + uncounted, 0);
  const word = findings.length > 0 ? 'INCOMPLETE' : counted > 0 ? 'complete' : 'uncounted';
  const more = later > 0 ? `, ${later} not counted yet` : '';
  return [
    `${iso(hour)}  ${asset}  ${word}  ${counted} readings of ${group.length} metrics from ${gateway}${more}`,
    ...findings.map((finding) => `    ${findingText(finding)}`),
  ];
}

function findingText(result: HourResult): string {
  const { metric, verdict, missing, extra, expected, found, notArrived, givenUp } = result;
  const what = {
    missing: `${missing} of ${expected} missing`,
    extra: `${extra} more than the ${expected} counted`,
    differs: `${found} as counted, but not the same ones`,
    complete: 'complete',
    uncounted: 'not counted yet',
  }[verdict];
  const where = [
    ...(notArrived.length > 0 ? [`seqs that have not arrived: ${rangesText(notArrived)}`] : []),
    ...givenUp.map((range) => `given up (${range.reason}): ${rangesText([range])}`),
  ];
  const gone = missing > 0 && where.length === 0 ? ['arrived, and no longer in the store'] : [];
  return [`${metric}: ${what}`, ...where, ...gone].join('; ');
}

function totalsText({ complete, findings, uncounted, expected, missing, extra }: Totals): string {
  if (complete + findings + uncounted === 0) return 'nothing was counted or stored in this window';
  const rest = uncounted > 0 ? `, ${uncounted} not counted yet` : '';
  return `${expected} readings counted: ${missing} missing, ${extra} extra; ${complete} metric hours complete, ${findings} not${rest}`;
}
