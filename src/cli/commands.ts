import { check } from './check.js';
import type { CliCommand } from './command.js';
import { config } from './config.js';
import { decode } from './decode.js';
import { simulate } from './simulate.js';

/** Every command of the program, in the order in which help lists them. */
export const commands: readonly CliCommand[] = [simulate, check, config, decode];
