import { type Clock, within } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, silentLog } from '../lib/log.js';
import type { GatewayStatus } from '../model/status.js';
import { type Answer, json, refusal } from './answer.js';
import { EventHub } from './event-hub.js';
import { History } from './history.js';
import { loadPageFiles } from './page-files.js';
import { Sampler, STATUS_WAIT_MS } from './sampler.js';
import type { Routes } from './server.js';

const SAMPLE_EVERY_MS = 1_000;
/** 30 minutes: long enough to see an outage and its drain, short enough to be sent whole to a page that opens. */
const HISTORY_SAMPLES = 1_800;

export interface GatewayPagesOptions {
  /** Called about once a second and for each request; must not touch the disk. */
  readonly status: () => Promise<GatewayStatus>;
  readonly log?: Log;
  readonly clock?: Clock;
  readonly sampleEveryMs?: number;
}

/**
 * What a gateway shows over HTTP.
 *
 * | path       | answers                                                                                            |
 * |------------|----------------------------------------------------------------------------------------------------|
 * | `/`        | the status page                                                                                    |
 * | `/status`  | the snapshot as JSON, taken now                                                                    |
 * | `/history` | one sample a second of the last 30 minutes, as columns                                             |
 * | `/events`  | server-sent `snapshot` events, one a second: `{ status, sample }`                                  |
 * | `/healthz` | 200 while the process turns; a supervisor may restart it otherwise                                 |
 * | `/readyz`  | 503 when nothing is acknowledged any more. A cut upstream is no reason: restarting cannot mend it. |
 */
export class GatewayPages {
  readonly routes: Routes;
  private readonly sampler: Sampler;

  private constructor(options: GatewayPagesOptions, files: Routes) {
    const everyMs = options.sampleEveryMs ?? SAMPLE_EVERY_MS;
    const log = options.log ?? silentLog;
    const history = new History(HISTORY_SAMPLES);
    const events = new EventHub();
    this.sampler = new Sampler({
      ...options,
      everyMs,
      onSample: (status, sample) => {
        history.push(sample);
        events.push('snapshot', { status, sample });
      },
    });
    const withStatus = (answer: (status: GatewayStatus) => Answer) => async (): Promise<Answer> => {
      try {
        return answer(await within(options.status(), STATUS_WAIT_MS, 'The status'));
      } catch (error) {
        log.debug({ error: messageOf(error) }, 'A request for the status failed');
        return refusal(503, 'no-status', 'The gateway could not give its status.', { 'retry-after': '5' });
      }
    };
    this.routes = {
      ...files,
      '/status': withStatus(json),
      '/history': () => json({ everyMs, capacity: history.capacity, ...history.columns() }),
      '/events': events,
      '/healthz': () => json({ alive: true }),
      '/readyz': withStatus(({ state, causes }) => json({ state, causes }, state === 'failed' ? 503 : 200)),
    };
  }

  /** Reads the page's files and begins to sample. Hand `routes` to a `WebServer`, which ends the event streams. */
  static async open(options: GatewayPagesOptions): Promise<GatewayPages> {
    const pages = new GatewayPages(options, await loadPageFiles());
    pages.sampler.start();
    return pages;
  }

  /** Resolves when the status is not read any more. Idempotent. */
  close(): Promise<void> {
    return this.sampler.close();
  }
}
