/** Checkpoints after a few pages, so that a short run has many. No defect. */
import { replacePragma } from './pragmas.js';

replacePragma(/^wal_autocheckpoint/, 'wal_autocheckpoint = 12');
