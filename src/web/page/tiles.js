import { ago, bytes, duration, NONE, perSecond, plural, time } from './format.js';
import { html } from './html.js';

/** Rows younger than this are on their way, not a backlog: a linger of a second and a slow round trip. */
const BACKLOG_AGE_MS = 5_000;
/** The span over which the spool's growth is taken to tell when it will be full. */
const GROWTH_SPAN_MS = 60_000;

/** The numbers an operator asks for during an outage: how much, how old, how fast, how long still. */
export function Tiles({ status, history, rates }) {
  const { spool, upstream, now } = status;
  const share = spool.bytesMax > 0 ? spool.bytes / spool.bytesMax : 0;
  return html`
    <section class="tiles" aria-label="Spool and replay">
      <${Tile} name="Waiting in the spool" value=${plural(spool.rows, 'row')}>
        <${Meter} share=${share} />
        ${bytes(spool.bytes)} of ${bytes(spool.bytesMax)}${fullIn(history, spool)}
      <//>
      <${Tile} name="Oldest row" value=${spool.rows > 0 ? duration(spool.oldestAgeMs) : NONE}>
        ${spool.rows > 0 ? `since ${time(now - spool.oldestAgeMs, now)}` : 'Nothing waits'}
      <//>
      <${Tile} name="Rates, last 10 s" value=${`${perSecond(rates.acknowledgedPerS)} out`}>
        ${perSecond(rates.receivedPerS)} in
      <//>
      <${Tile} name="Drain ETA" ...${drain(status)} />
      <${Tile} name="Last cloud ack" value=${ago(upstream.lastAckAt, now)}>
        ${upstream.lastAckAt === null ? 'None since the start' : `at ${time(upstream.lastAckAt, now)}`}
      <//>
    </section>
  `;
}

function Tile({ name, value, note, children }) {
  return html`
    <div class="panel tile">
      <h2>${name}</h2>
      <p class="tile-value">${value}</p>
      <p class="note">${note}${children}</p>
    </div>
  `;
}

function Meter({ share }) {
  const percent = Math.min(100, share * 100);
  const tone = share >= 0.9 ? 'bad' : share >= 0.7 ? 'warn' : 'ok';
  return html`
    <span class=${`meter tone-${tone}`} role="meter" aria-label="Spool used" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(percent)}>
      <span class="meter-bar" style=${{ width: `${percent}%` }}></span>
    </span>
  `;
}

/** @param {import('./feed.js').GatewayStatus} status */
function drain({ spool, upstream }) {
  if (spool.rows === 0 || (upstream.state === 'online' && spool.oldestAgeMs < BACKLOG_AGE_MS))
    return { value: 'Live', note: 'No backlog' };
  if (upstream.state !== 'online') return { value: NONE, note: 'When the cloud takes rows again' };
  if (upstream.drainEtaMs === null) return { value: NONE, note: 'More comes in than goes out' };
  return { value: duration(upstream.drainEtaMs), note: 'At the present rates' };
}

/** `, full in 6 h`, while it grows. */
function fullIn(history, spool) {
  const last = history ? history.t.length - 1 : 0;
  if (last < 1) return '';
  const first = Math.max(
    0,
    history.t.findIndex((t) => t >= history.t[last] - GROWTH_SPAN_MS),
  );
  const bytesPerMs = (history.bytes[last] - history.bytes[first]) / (history.t[last] - history.t[first]);
  if (!(bytesPerMs > 0)) return '';
  return `, full in ${duration((spool.bytesMax - spool.bytes) / bytesPerMs)}`;
}
