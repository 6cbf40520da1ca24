import {
  requeue,
  rowData,
  rowLine,
  type SpoolReport,
  salvage,
  spoolReport,
  spoolRows,
  verifySpool,
} from '../gateway/spool-tools.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import type { Seq } from '../model/ids.js';
import type { CliCommand } from './command.js';

const LIST_ROWS = '50';

export const spool: CliCommand = (program, act) => {
  const group = program
    .command('spool')
    .description('look into a spool file, or mend it; stat, list, verify and export work beside a running gateway');

  const command = (name: string, description: string) =>
    group.command(name).description(description).argument('<file>', 'the spool file').option('--json', 'print JSON');

  command('stat', 'how much it holds, and its accounts').action(
    act(async (io, file: string, options: { json?: boolean }) => {
      const report = await spoolReport(file);
      if (options.json) io.out(JSON.stringify(report));
      else for (const line of describe(report)) io.out(line);
      return report.balanced ? EXIT.ok : EXIT.finding;
    }),
  );

  command('list', 'the rows that wait for the cloud, oldest first')
    .option('--dead', 'the dead letters instead: rows that the cloud could not take')
    .option('--after <seq>', 'only rows after this one', '0')
    .option('--max <rows>', 'at most so many', LIST_ROWS)
    .action(
      act(async (io, file: string, options: { json?: boolean; dead?: boolean; after: string; max: string }) => {
        const range = { dead: options.dead === true, after: whole(options.after), max: whole(options.max) };
        await spoolRows(file, range, (row) => io.out(options.json ? JSON.stringify(rowData(row)) : rowLine(row)));
        return EXIT.ok;
      }),
    );

  command('verify', 'read every page and count every row; exit code 1 when something is wrong').action(
    act(async (io, file: string, options: { json?: boolean }) => {
      const findings = await verifySpool(file);
      if (options.json) io.out(JSON.stringify({ file, ok: findings.length === 0, findings }));
      else for (const line of findings.length === 0 ? [`${file} is sound`] : findings) io.out(line);
      return findings.length === 0 ? EXIT.ok : EXIT.finding;
    }),
  );

  command('export', 'every row as NDJSON')
    .option('--dead', 'the dead letters instead')
    .action(
      act(async (io, file: string, options: { dead?: boolean }) => {
        await spoolRows(file, { dead: options.dead === true }, (row) => io.out(JSON.stringify(rowData(row))));
        return EXIT.ok;
      }),
    );

  command('requeue', 'put dead letters back into the queue; the gateway must be stopped')
    .option('--seq <seq...>', 'only these')
    .action(
      act(async (io, file: string, options: { json?: boolean; seq?: string[] }) => {
        const count = await requeue(file, options.seq?.map((seq) => whole(seq) as Seq) ?? 'all');
        io.out(options.json ? JSON.stringify({ requeued: count }) : `${count} put back into the queue`);
        return EXIT.ok;
      }),
    );

  command('salvage', 'what can be read of a damaged or quarantined file')
    .option('--into <spool>', 'append the rows to this spool, whose gateway must be stopped')
    .action(
      act(async (io, file: string, options: { json?: boolean; into?: string }) => {
        const found = await salvage(file, options.into);
        const { rows, dead } = found;
        if (options.json) io.out(JSON.stringify(found));
        else
          io.out(`${rows} rows ${options.into ? `appended to ${options.into}` : 'can be read'}, ${dead} dead letters`);
        return EXIT.ok;
      }),
    );
};

function whole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new HoldfastError('usage.invalid', `"${text}" is not a whole number`);
  return Number(text);
}

function* describe(report: SpoolReport): Generator<string> {
  const { rows, bytes, received, acknowledged, dropped, dead, balanced, head, tail, oldestAt } = report;
  yield `epoch         ${report.epoch}`;
  yield `rows          ${rows} of ${bytes} bytes, seq ${head} to ${tail}`;
  yield `oldest        ${oldestAt === null ? '-' : new Date(oldestAt).toISOString()}`;
  yield `accounts      received ${received} = stored ${rows} + acknowledged ${acknowledged} + dropped ${dropped} + dead ${dead}${balanced ? '' : '   DOES NOT ADD UP'}`;
  if (report.isSalvaging) yield 'salvage       a damaged file is not read to its end yet; the gateway goes on with it';
  yield `file          ${report.fileBytes} bytes, log ${report.logBytes} bytes`;
  yield `last commit   ${new Date(report.aliveAt).toISOString()}${report.closedAt === null ? '' : ', closed in order'}`;
}
