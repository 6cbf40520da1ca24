import { check } from './check.js';
import type { CliCommand } from './command.js';
import { config } from './config.js';
import { decode } from './decode.js';
import { demo } from './demo.js';
import { gateway } from './gateway.js';
import { ingest } from './ingest.js';
import { modbus } from './modbus.js';
import { simulate } from './simulate.js';

/** Every command of the program, in the order in which help lists them. */
export const commands: readonly CliCommand[] = [gateway, ingest, demo, simulate, check, config, modbus, decode];
