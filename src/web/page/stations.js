/**
 * The gateway as a chain of four stations and the three links between them, in words and numbers.
 *
 * @typedef {import('./feed.js').Known} Known
 * @typedef {import('./feed.js').GatewayStatus} GatewayStatus
 * @typedef {'ok' | 'warn' | 'bad' | 'idle'} Tone
 * @typedef {{ name: string, tone: Tone, state: string, since: string, detail: string | null, facts: [string, string][] }} Station
 * @typedef {{ tone: Tone, cut: boolean, label: string, meaning: string }} Link
 */
import { rateOf } from './feed.js';
import { ago, bytes, count, duration, perSecond, plural, sinceWhen } from './format.js';

const NAMES_MAX = 3;

/** @type {Record<string, { tone: Tone, word: string }>} */
export const READER_STATES = {
  online: { tone: 'ok', word: 'Online' },
  starting: { tone: 'idle', word: 'Starting' },
  degraded: { tone: 'warn', word: 'Degraded' },
  offline: { tone: 'bad', word: 'Offline' },
};

/** @type {Record<string, { tone: Tone, word: string, link: string }>} */
export const UPSTREAM_STATES = {
  online: { tone: 'ok', word: 'Online', link: '' },
  connecting: { tone: 'warn', word: 'Connecting', link: 'connecting' },
  stalled: { tone: 'warn', word: 'Connected, but silent', link: 'stalled' },
  held: { tone: 'warn', word: 'Connected, takes nothing', link: 'held' },
  backoff: { tone: 'warn', word: 'Not reachable', link: 'cut' },
  stopped: { tone: 'idle', word: 'Stopped', link: 'stopped' },
};

const SPOOL_STATES = {
  open: { tone: 'ok', word: 'Writing' },
  full: { tone: 'warn', word: 'Full, publishers wait' },
  failed: { tone: 'bad', word: 'Failed, nothing acknowledged' },
};

/** @param {GatewayStatus} status @returns {Station} */
function plcs({ readers, startedAt, now }, readingsPerS) {
  const at = (state) => readers.filter((reader) => reader.state === state);
  const online = at('online');
  const troubled = readers.filter((reader) => reader.state !== 'online');
  const gaps = readers.reduce((sum, reader) => sum + reader.gaps, 0);
  const facts = [
    ['Readings', perSecond(readingsPerS)],
    ['Gaps recorded', count(gaps)],
  ];
  if (readers.length === 0)
    return { name: 'PLCs', tone: 'idle', state: 'None polled', since: sinceWhen(startedAt, now), detail: null, facts };
  // With a fault, since the first one began; without, since the last one came back.
  const since =
    troubled.length > 0
      ? Math.min(...troubled.map((reader) => reader.since))
      : Math.max(...online.map((reader) => reader.since));
  const all = online.length === readers.length;
  return {
    name: 'PLCs',
    tone: all ? 'ok' : at('offline').length === readers.length ? 'bad' : 'warn',
    state: all
      ? readers.length === 1
        ? 'Online'
        : `All ${readers.length} online`
      : `${online.length} of ${readers.length} online`,
    since: sinceWhen(since, now),
    detail: troubled.length > 0 ? namesOf(troubled) : null,
    facts,
  };
}

/** The first few; the table below has them all. @param {GatewayStatus['readers'][number][]} readers */
function namesOf(readers) {
  const names = readers.slice(0, NAMES_MAX).map((reader) => reader.asset);
  const more = readers.length - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

/** @param {GatewayStatus} status @returns {Station} */
function broker({ broker, startedAt, now }, receivedPerS) {
  const listening = broker.addresses.length > 0;
  const paused = broker.pausedClients;
  return {
    name: 'Broker',
    tone: !listening ? 'idle' : paused > 0 ? 'warn' : 'ok',
    state: !listening ? 'No listener' : paused > 0 ? `${plural(paused, 'client')} held back` : 'Listening',
    since: sinceWhen(startedAt, now),
    detail: null,
    facts: [
      ['Clients', count(broker.clients)],
      ['Messages in', perSecond(receivedPerS)],
    ],
  };
}

/** @param {GatewayStatus} status @returns {Station} */
function spool({ spool }) {
  const { tone, word } = SPOOL_STATES[spool.state];
  return {
    name: 'Spool',
    tone,
    state: word,
    since: spool.rows > 0 ? `oldest row waits ${duration(spool.oldestAgeMs)}` : 'nothing waits',
    detail: null,
    facts: [
      ['Waiting', plural(spool.rows, 'row')],
      ['On disk', bytes(spool.fileBytes)],
    ],
  };
}

/** @param {GatewayStatus} status @returns {Station} */
function cloud({ upstream, now }) {
  const { tone, word } = UPSTREAM_STATES[upstream.state];
  return {
    name: 'Cloud',
    tone,
    state: word,
    since: sinceWhen(upstream.since, now),
    detail: upstream.state === 'online' ? null : upstream.cause,
    facts: [
      ['Last ack', ago(upstream.lastAckAt, now)],
      ['In flight', plural(upstream.batchesInFlight, 'batch', 'batches')],
    ],
  };
}

/** @param {Known} known @param {{ receivedPerS: number | null, acknowledgedPerS: number | null }} rates */
export function chainOf({ status, recent }, rates) {
  const readingsPerS = rateOf(recent, (s) => s.readers.reduce((sum, reader) => sum + reader.readings, 0));
  const messagesPerS = rateOf(recent, (s) => s.broker.received);
  const stations = [plcs(status, readingsPerS), broker(status, messagesPerS), spool(status), cloud(status)];
  const [plc, , store] = stations;
  const online = status.upstream.state === 'online';
  /** @type {Link[]} */
  const links = [
    {
      tone: plc.tone,
      cut: plc.tone === 'bad',
      label: plc.tone === 'bad' ? 'silent' : perSecond(readingsPerS),
      meaning: 'readings from the PLCs',
    },
    {
      tone: store.tone,
      cut: status.spool.state !== 'open',
      label: status.spool.state === 'open' ? perSecond(rates.receivedPerS) : 'blocked',
      meaning: 'rows made durable',
    },
    {
      tone: UPSTREAM_STATES[status.upstream.state].tone,
      cut: !online,
      label: online ? perSecond(rates.acknowledgedPerS) : UPSTREAM_STATES[status.upstream.state].link,
      meaning: 'rows acknowledged by the cloud',
    },
  ];
  return { stations, links };
}
