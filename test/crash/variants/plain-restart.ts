/** Defect: a start after an I/O error takes the files as they are. */
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';

const path = join(process.env.RECORD_DIR as string, 'data/spool.db');
if (existsSync(`${path}-ioerr`)) renameSync(`${path}-ioerr`, path);
