import { fileURLToPath } from 'node:url';
import { EXIT } from '../lib/errors.js';
import { type DemoTick, runDemo } from '../sim/demo/demo.js';
import { parseDuration, parseOutage, planOutages } from '../sim/demo/plan.js';
import { resultTable, tickBlock, tickLine } from '../sim/demo/screen.js';
import type { CliCommand, Io } from './command.js';

const DEFAULT_FOR = '60s';
const DEFAULT_OUTAGE = '15s@15s';
/** Where no terminal is redrawn, one line in so many seconds is enough. */
const LINE_EVERY_TICKS = 5;

interface Flags {
  readonly for?: string;
  readonly outage?: string[];
  readonly seed: string;
  readonly dir?: string;
  readonly json?: boolean;
}

export const demo: CliCommand = (program, act) => {
  program
    .command('demo')
    .description('plant, gateway, cloud and historian on this machine, with the line between them cut on request')
    .option('--for <duration>', `how long to run, such as 40s or 5m (default: ${DEFAULT_FOR})`)
    .option('--outage <length@start...>', `cut the WAN, such as 10s@10s (default without --for: ${DEFAULT_OUTAGE})`)
    .option('--seed <number>', 'of the simulated line', '1')
    .option('--dir <folder>', 'keep data and logs here')
    .option('--json', 'the last line of stdout is one object with the result')
    .action(
      act(async (io, flags: Flags) => {
        const forMs = parseDuration(flags.for ?? DEFAULT_FOR);
        const asked = flags.outage ?? (flags.for === undefined ? [DEFAULT_OUTAGE] : []);
        const outages = planOutages(asked.map(parseOutage), forMs);
        const screen = new Screen(io, flags.json === true);
        const result = await runDemo({
          program: fileURLToPath(new URL('../main.js', import.meta.url)),
          forMs,
          outages,
          seed: Number(flags.seed),
          dir: flags.dir,
          onStart: ({ ports, replaced, dir }) => {
            for (const note of replaced) screen.say(`port ${note}`);
            screen.say(`status page   http://127.0.0.1:${ports.web}/`);
            screen.say(
              `plant broker  mqtt://127.0.0.1:${ports.mqtt}   (try: mosquitto_sub -p ${ports.mqtt} -t 'plant/#' -v)`,
            );
            if (flags.dir !== undefined) screen.say(`data and logs ${dir}`);
            screen.say('');
          },
          onTick: (tick) => screen.tick(tick),
          stop: io.stop,
        });
        screen.done();
        const lines = resultTable(result, screen.style);
        for (const line of flags.json ? [] : lines) io.out(line);
        if (flags.json) {
          const { reconciliation, ingest: _, ...totals } = result;
          io.out(JSON.stringify({ ...totals, assets: reconciliation.assets }));
        }
        return result.lost === 0 && result.foreign === 0 ? EXIT.ok : EXIT.finding;
      }),
    );
};

/** Redraws a block in a terminal; writes lines elsewhere, to stderr when stdout is for machines. */
class Screen {
  private readonly io: Io;
  private readonly json: boolean;
  private drawn = 0;
  private ticks = 0;
  readonly style: { colour: boolean };

  constructor(io: Io, json: boolean) {
    this.io = io;
    this.json = json;
    this.style = { colour: io.interactive && !json && process.env.NO_COLOR === undefined };
  }

  say(line: string): void {
    if (this.json) this.io.err(line);
    else this.io.out(line);
  }

  tick(tick: DemoTick): void {
    if (!this.io.interactive || this.json) {
      if (this.ticks++ % LINE_EVERY_TICKS === 0) this.say(tickLine(tick));
      return;
    }
    const block = tickBlock(tick, this.style);
    if (this.drawn > 0) this.io.out(`\x1b[${this.drawn + 1}A`);
    for (const line of block) this.io.out(`\x1b[2K${line}`);
    this.drawn = block.length;
  }

  done(): void {
    if (this.drawn > 0) this.io.out('');
  }
}
