/** Checkpoints after a few pages, so that a short run has many. No defect. */
import { Store, type StoreOptions } from '../../../src/store/store.js';

const LOG_PAGES_MAX = 12;
const { open } = Store;
Store.open = (options: StoreOptions) => open.call(Store, { ...options, logPagesMax: LOG_PAGES_MAX });
