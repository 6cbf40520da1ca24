/** Defect: an fsync that had begun before the message was written is taken for one that covers it. */
import { syncBeside } from './own-sync.js';

syncBeside(() => true);
