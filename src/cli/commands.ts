import type { CliCommand } from './command.js';
import { simulate } from './simulate.js';

/** Every command of the program, in the order in which help lists them. */
export const commands: readonly CliCommand[] = [simulate];
