/** The same machinery without its defect: only an fsync that began after the commit counts. */
import { syncBeside } from './own-sync.js';

syncBeside((sync, running) => sync > running);
