import type { Command } from 'commander';
import { loadIngestConfig } from '../config/loader.js';
import { openRecords } from '../ingest/open-historian.js';
import type { KeptBatch, KeptKind, KeptRow } from '../ingest/records.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import type { Act } from './command.js';
import { historianOptions } from './historian-options.js';
import { bytes, number } from './status-text.js';
import { iso } from './window.js';

/** What a person reads; `--limit` for more. */
const SHOWN = 100;

const COMMANDS: readonly (readonly [KeptKind, string])[] = [
  ['quarantine', 'rows kept aside for their device time or for an identity used twice, with the reason'],
  ['conflicts', 'readings whose key was taken by another value, with both'],
  ['dead', 'batches that could not be read, kept with their bytes'],
];

interface Flags {
  readonly config?: string;
  readonly limit: string;
  readonly json?: boolean;
}

/** `holdfast ingest quarantine`, `conflicts` and `dead`: what was not stored as a reading, and why. */
export function keptCommands(ingest: Command, act: Act): void {
  for (const [kind, description] of COMMANDS)
    ingest
      .command(kind)
      .description(`${description}; the newest first`)
      .option('--config <file>', 'config file of the ingest, which may be running (required)')
      .option('--limit <n>', 'at most so many; the counts are of all', `${SHOWN}`)
      .option('--json', 'one object per entry, then one with the counts')
      .action(
        act(async (io, _: unknown, command: Command) => {
          // `--config` and `--json` are flags of `ingest`, too, which takes them wherever they stand.
          const { config, limit, json } = command.optsWithGlobals<Flags>();
          if (config === undefined)
            throw new HoldfastError('usage.invalid', `holdfast ingest ${kind} needs --config FILE`);
          if (!/^[1-9]\d{0,6}$/.test(limit))
            throw new HoldfastError('usage.invalid', `"${limit}" is no --limit: write a number from 1 to 9999999`);
          const records = await openRecords(historianOptions(loadIngestConfig(config).historian));
          try {
            const { counts, rows } = await records.kept(kind, Number(limit));
            for (const row of rows) io.out(json ? JSON.stringify(row) : textOf(row));
            if (json) io.out(JSON.stringify({ counts }));
            else io.out(counts.map(({ reason, count }) => `${reason}: ${number(count)}`).join(', ') || 'none');
            return EXIT.ok;
          } finally {
            await records.close();
          }
        }),
      );
}

function textOf(row: KeptRow | KeptBatch): string {
  if ('topic' in row) return `${iso(row.receivedAt)}  ${row.topic}  ${bytes(row.bytes)}  ${row.reason}: ${row.detail}`;
  const { gateway, epoch, seq, asset, metric, ts, value, quality, kept, reason } = row;
  const whose = asset === null ? 'no asset' : metric === null ? asset : `${asset}/${metric}`;
  const other = reason === 'value' ? `, and the reading has ${kept ?? 'no value'}` : '';
  return `${reason}  ${whose}  ${timeText(ts)}  ${value ?? 'no value'} (quality ${quality})${other}  ${gateway}/${epoch} seq ${seq}`;
}

/** A device's clock may say what no calendar has. */
function timeText(ms: number): string {
  return Math.abs(ms) <= 8.64e15 ? iso(ms) : `${ms} ms`;
}
