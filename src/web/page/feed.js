/**
 * What the page knows of the gateway: the newest snapshot, the history, and when it last heard anything.
 *
 * @typedef {import('../../model/status.js').GatewayStatus} GatewayStatus
 * @typedef {import('../history.js').Sample} Sample
 * @typedef {Record<keyof Sample, any[]> & { capacity: number }} History
 * @typedef {{ status: GatewayStatus, recent: GatewayStatus[], history: History | null, heardAt: number }} Known
 */

/** Events come each second; without one for this long the numbers are called old. */
export const STALE_MS = 5_000;
/** A stream that is silent for this long is dead even if the browser has not noticed, as after a laptop's sleep. */
const SILENT_MS = 15_000;
/** Snapshots kept for rates of counters that the history does not have. */
const RECENT_MAX = 10;

export class Feed {
  /** @param {(known: Known) => void} onChange called with each snapshot */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Known | null} */
    this.known = null;
    /** @type {History | null} */
    this.history = null;
    this.attemptedAt = 0;
    /** Whether the history at hand has a hole that the gateway could fill: at the start and after every cut. */
    this.wantsHistory = false;
  }

  /** Opens the stream and keeps it open for as long as the page lives. */
  start() {
    this.connect();
    setInterval(() => {
      const silentMs = Date.now() - Math.max(this.attemptedAt, this.known?.heardAt ?? 0);
      if (silentMs > SILENT_MS) this.connect();
    }, 1_000);
  }

  connect() {
    this.attemptedAt = Date.now();
    this.source?.close();
    this.source = new EventSource('events');
    this.source.onopen = () => {
      this.wantsHistory = true;
    };
    this.source.addEventListener('snapshot', (event) => this.take(JSON.parse(event.data)));
  }

  /** Tried with each snapshot until it works once. */
  async loadHistory() {
    this.wantsHistory = false;
    try {
      const answer = await fetch('history');
      if (!answer.ok) throw new Error(answer.statusText);
      this.history = await answer.json();
      if (this.known) this.publish({ ...this.known, history: this.history });
    } catch {
      this.wantsHistory = true;
    }
  }

  /** @param {{ status: GatewayStatus, sample: Sample }} news */
  take({ status, sample }) {
    const last = this.known?.status;
    // Another process, or the same one with its clock set back: its counters and its history start again.
    const fresh = !last || last.startedAt !== status.startedAt || status.now < last.now;
    if (fresh && last) this.wantsHistory = true;
    const recent = fresh ? [status] : [...this.known.recent, status].slice(-RECENT_MAX);
    if (!fresh) this.append(sample);
    this.publish({ status, recent, history: this.history, heardAt: Date.now() });
    if (this.wantsHistory) this.loadHistory();
  }

  /** @param {Sample} sample */
  append(sample) {
    const history = this.history;
    if (!history || sample.t <= (history.t.at(-1) ?? 0)) return;
    const over = history.t.length >= history.capacity ? 1 : 0;
    const columns = Object.entries(sample).map(([name, value]) => [name, [...history[name].slice(over), value]]);
    this.history = { ...history, ...Object.fromEntries(columns) };
  }

  /** @param {Known} known */
  publish(known) {
    this.known = known;
    this.onChange(known);
  }
}

/**
 * How fast a counter rises, over the snapshots at hand; null with fewer than two.
 *
 * @param {GatewayStatus[]} recent @param {(status: GatewayStatus) => number} counter
 */
export function rateOf(recent, counter) {
  const first = recent[0];
  const last = recent.at(-1);
  if (!first || !last || last.now <= first.now) return null;
  return Math.max(0, counter(last) - counter(first)) / ((last.now - first.now) / 1_000);
}
