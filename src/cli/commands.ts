import { acl } from './acl.js';
import { backfill } from './backfill.js';
import { check } from './check.js';
import type { CliCommand } from './command.js';
import { config } from './config.js';
import { decode } from './decode.js';
import { demo } from './demo.js';
import { gaps } from './gaps.js';
import { gateway } from './gateway.js';
import { health } from './health.js';
import { importCommand } from './import.js';
import { ingest } from './ingest.js';
import { modbus } from './modbus.js';
import { opcua } from './opcua.js';
import { passwd } from './passwd.js';
import { reconcile } from './reconcile.js';
import { simulate } from './simulate.js';
import { spool } from './spool.js';
import { status } from './status.js';

/** Every command of the program, in the order in which help lists them. */
export const commands: readonly CliCommand[] = [
  gateway,
  ingest,
  status,
  reconcile,
  gaps,
  backfill,
  demo,
  simulate,
  check,
  config,
  modbus,
  opcua,
  health,
  spool,
  passwd,
  acl,
  importCommand,
  decode,
];
