import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { loadGatewayConfig } from '../config/loader.js';
import { simulatedDevices } from '../config/simulated-devices.js';
import { EXIT, type ExitCode } from '../lib/errors.js';
import { CLOUD_PORT, FaultBroker } from '../sim/cloud/fault-broker.js';
import { ConfigPlc } from '../sim/config-plc.js';
import { type Controllable, obey } from '../sim/control.js';
import { PLC_PORT, SimulatedPlc } from '../sim/plc.js';
import { type Endpoint, WanProxy } from '../sim/wan.js';
import type { CliCommand, Io } from './command.js';
import { endpoint, integer, milliseconds } from './flags.js';
import { simulateFleet } from './simulate-fleet.js';

interface PlcFlags {
  readonly host: string;
  readonly port: number;
  readonly seed: number;
  readonly truth?: string;
  readonly config?: string;
  readonly reader?: string;
  readonly json?: boolean;
}

interface Simulator extends Controllable {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

const COMMANDS = `
Commands, one JSON object a line on stdin, each answered with one line on stdout:
  {"stats":true}   {"set":{…}}   {"reset":true}
A terminal is only listened to with --json.`;

export const simulate: CliCommand = (program, act) => {
  const group = program.command('simulate').description('simulators to develop and test against');

  served(group, 'plc', PLC_PORT)
    .description('a bottling line on Modbus TCP, units 1 to 4, that records every value it hands out')
    .option('--seed <number>', 'the same seed gives the same values', integer(0, 2 ** 32 - 1), 1)
    .option('--truth <file>', 'write every value served to this file, as NDJSON')
    .option('--config <file>', 'serve the devices and tags of the Modbus readers of this gateway config instead')
    .option('--reader <url>', 'with --config: only those of the reader with this url')
    .addHelpText('after', `${COMMANDS}\nSwitches: refuse, silent, delayMs, exceptions.`)
    .action(
      act(async (io, options: PlcFlags) => {
        if (options.config !== undefined) {
          const devices = simulatedDevices(loadGatewayConfig(options.config), options.reader);
          const plc = await ConfigPlc.open({ ...options, devices });
          const units = devices.map(({ unit, asset }) => `${unit} ${asset}`).join(', ');
          if (!options.json) io.err(`read it with url: "tcp://${plc.host}:${plc.port}"`);
          return run(io, plc, `devices of ${options.config}, units ${units}`, options.json);
        }
        const plc = await SimulatedPlc.open({ ...options, truthFile: options.truth });
        return run(io, plc, `PLC line, units 1 to 4, seed ${options.seed}`, options.json);
      }),
    );

  served(group, 'cloud', CLOUD_PORT)
    .description('an MQTT 3.1.1 and 5 broker that stands in for a cloud hub, with its faults')
    .addHelpText(
      'after',
      `${COMMANDS}\nSwitches: refuseConnect, noConnack, ackDelayMs, swallowAcks, ackOrder, ackWindow, ackCode, receiveMaximum,\n` +
        'maximumPacketSize, resetAfterPublishes, blackHole, absent.',
    )
    .action(
      act(async (io, options: { host: string; port: number; json?: boolean }) =>
        run(io, await FaultBroker.open(options), 'cloud broker', options.json),
      ),
    );

  served(group, 'wan', 0)
    .description('a TCP line between plant and cloud that can be slow, stall, or be cut')
    .requiredOption('--to <host:port>', 'where the line leads', endpoint)
    .option('--latency <duration>', 'added each way, such as 25ms or 1s', milliseconds('0ms', '7d'), 0)
    .addHelpText(
      'after',
      `${COMMANDS}\nSwitches: latencyMs, kbps, cut ("blackhole", "reset", null), stall ("up", "down", "both", null).`,
    )
    .action(
      act(async (io, options: { host: string; port: number; to: Endpoint; latency: number; json?: boolean }) => {
        const { host, port, to, latency } = options;
        const wan = await WanProxy.open({ listen: { host, port }, to, faults: { latencyMs: latency } });
        return run(io, wan, `line to ${to.host}:${to.port}`, options.json);
      }),
    );

  simulateFleet(group, act);
};

/** Runs until the wish to stop; the end of stdin is none. */
async function run(io: Io, simulator: Simulator, what: string, json = false): Promise<ExitCode> {
  const { host, port } = simulator;
  io.out(json ? JSON.stringify({ ready: true, host, port }) : `${what}: ready on ${host}:${port}`);
  // Reading the terminal would stop a simulator that was started in the background.
  const lines = json || !process.stdin.isTTY ? createInterface({ input: process.stdin, terminal: false }) : undefined;
  let answered = Promise.resolve();
  lines?.on('line', (line) => {
    answered = answered.then(async () => io.out(await obey(simulator, line)));
  });
  try {
    if (!io.stop.aborted) await new Promise((resolve) => io.stop.addEventListener('abort', resolve, { once: true }));
  } finally {
    lines?.close();
    process.stdin.unref?.();
    await answered;
    const final = JSON.stringify({ final: simulator.stats() });
    await simulator.close();
    if (json) io.out(final);
  }
  return EXIT.ok;
}

function served(group: Command, name: string, port: number): Command {
  return group
    .command(name)
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .option('--port <number>', 'where to listen; 0 takes a free one', integer(0, 65_535), port)
    .option('--json', 'machine-readable lines, and final statistics');
}
