import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { stringify } from 'yaml';
import { loadGatewayConfig } from '../config/loader.js';
import { importTags } from '../config/tag-import.js';
import { type DeviceLine, plansOf, scanUnits, viewRegisters } from '../gateway/commissioning.js';
import { EXIT, HoldfastError, messageOf } from '../lib/errors.js';
import type { CliCommand, Io } from './command.js';
import { integer, milliseconds } from './flags.js';
import { bigintText, planLines, registerLines } from './modbus-screen.js';

const UNITS_MAX = 256;

export const modbus: CliCommand = (program, act) => {
  const group = program.command('modbus').description('look at Modbus devices before a gateway reads them');

  onLine(group.command('read'))
    .description('read registers once and show them as every type in every byte order')
    .argument('<address>', 'hr:100, ir:12, co:3, di:4, 40101 or %MW100')
    .option('--unit <id>', 'unit id', integer(0, 255), 1)
    .option('--count <number>', 'registers, or coils and inputs', integer(1, 2000), 4)
    .action(
      act(async (io, url: string, at: string, options: LineFlags & { unit: number; count: number; json?: boolean }) => {
        const view = await viewRegisters(lineOf(io, url, options), options.unit, at, options.count);
        if (options.json) io.out(JSON.stringify(view, bigintText));
        else for (const line of registerLines(view)) io.out(line);
        return EXIT.ok;
      }),
    );

  onLine(group.command('scan'))
    .description('find the units that answer, and ask them who they are; nothing is written')
    .option('--units <range>', 'unit ids, such as 1-10 or 1,5,20-30', unitIds, unitIds('1-247'))
    .option('--address <number>', 'holding register that is read', integer(0, 65_535), 0)
    .action(
      act(async (io, url: string, options: LineFlags & { units: number[]; address: number; json?: boolean }) => {
        let found = 0;
        await scanUnits(lineOf(io, url, options), options.units, options.address, (unit) => {
          found++;
          const { unit: id, answer, identification } = unit;
          io.out(options.json ? JSON.stringify(unit) : `unit ${id}: ${[answer, ...identification].join(', ')}`);
        });
        if (!options.json) io.err(`${found} of ${options.units.length} units answered`);
        return found > 0 ? EXIT.ok : EXIT.finding;
      }),
    );

  group
    .command('plan')
    .description('what the readers of a config will ask, and how busy their lines will be')
    .argument('<file>', 'config file of a gateway')
    .option('--rtt <duration>', 'time of one read, where the baud rate does not tell', milliseconds('1ms', '10m'), 10)
    .option('--json', 'print the plans as one JSON value')
    .action(
      act(async (io, file: string, options: { rtt: number; json?: boolean }) => {
        const plans = plansOf(loadGatewayConfig(file), options.rtt);
        if (options.json) io.out(JSON.stringify(plans));
        else for (const line of plans.flatMap(planLines)) io.out(line);
        return plans.some(({ load }) => load > 1) ? EXIT.finding : EXIT.ok;
      }),
    );

  group
    .command('import')
    .description('turn a CSV list of tags into the devices of a config')
    .argument('<file>', 'CSV: device, unit, tag, address, type, …; or an export of Kepware')
    .option('--base <number>', 'whether plain addresses such as 40001 count from 0 or 1', integer(0, 1), 1)
    .option('--asset <name>', 'asset of rows without a device', 'plc')
    .option('--unit <id>', 'unit of rows without one', integer(0, 255), 1)
    .option('--url <url>', 'the link, for the plan', 'tcp://192.0.2.20')
    .option('--rtt <duration>', 'time of one read, for the plan', milliseconds('1ms', '10m'), 10)
    .option('--dry-run', 'print the plan instead of the devices')
    .action(
      act(async (io, file: string, options: ImportFlags) => {
        const { devices, reader, tags, writable } = importTags(textOf(file), options);
        const lines = options.dryRun ? plansOf({ readers: [reader] }, options.rtt).flatMap(planLines) : [];
        for (const line of lines) io.out(line);
        if (!options.dryRun) io.out(stringify({ devices }).trimEnd());
        const off = writable > 0 ? `; ${writable} may be written where they come from, here only with write: {}` : '';
        io.err(`${tags} tags in ${devices.length} devices${off}`);
        return EXIT.ok;
      }),
    );
};

interface LineFlags {
  readonly timeout: number;
  readonly baud?: number;
  readonly parity?: 'none' | 'even' | 'odd';
}

interface ImportFlags {
  readonly base: 0 | 1;
  readonly asset: string;
  readonly unit: number;
  readonly url: string;
  readonly rtt: number;
  readonly dryRun?: boolean;
}

function onLine(command: Command): Command {
  return command
    .argument('<url>', 'tcp://HOST[:502], rtu+tcp://HOST:PORT or rtu:///dev/ttyUSB0')
    .option('--timeout <duration>', 'time for one answer', milliseconds('1ms', '10m'), 500)
    .option('--baud <number>', 'of a serial line', integer(110, 4_000_000))
    .addOption(new Option('--parity <parity>', 'of a serial line').choices(['none', 'even', 'odd']))
    .option('--json', 'print JSON');
}

function lineOf(io: Io, url: string, { timeout, baud, parity }: LineFlags): DeviceLine {
  const serial = { ...(baud === undefined ? {} : { baudRate: baud }), ...(parity === undefined ? {} : { parity }) };
  return { url, serial, timeoutMs: timeout, signal: io.stop };
}

function unitIds(text: string): number[] {
  const ids = text.split(',').flatMap((part) => {
    const [, from, to = from] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(part.trim()) ?? [];
    const [low, high] = [Number(from), Number(to)];
    if (from === undefined || low > high || high >= UNITS_MAX)
      throw new InvalidArgumentError(`expected unit ids from 0 to ${UNITS_MAX - 1}, like 1-10 or 1,5,20-30`);
    return Array.from({ length: high - low + 1 }, (_, i) => low + i);
  });
  return [...new Set(ids)];
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new HoldfastError('usage.invalid', `Cannot read ${file}: ${messageOf(cause)}`, { values: { file }, cause });
  }
}
