import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Chain } from './chain.js';
import { SpoolChart } from './chart.js';
import { Details } from './details.js';
import { Feed, STALE_MS } from './feed.js';
import { Causes, Header, StaleBanner, titleOf } from './header.js';
import { html } from './html.js';
import { Ledger } from './ledger.js';
import { Readers } from './readers.js';
import { chainOf } from './stations.js';
import { Tiles } from './tiles.js';

/** Rates are averaged over this many samples, because the cloud acknowledges whole batches. */
const RATE_SAMPLES = 10;

function Page({ known }) {
  const { status, history, heardAt } = known;
  const ageMs = useAge(heardAt);
  const staleMs = ageMs > STALE_MS ? ageMs : null;
  const rates = {
    receivedPerS: meanOfLast(history?.receivedPerS),
    acknowledgedPerS: meanOfLast(history?.acknowledgedPerS),
  };
  useEffect(() => {
    document.title = titleOf({ status, staleMs });
  });
  return html`
    <${Header} status=${status} staleMs=${staleMs} />
    <main class=${staleMs === null ? '' : 'stale'}>
      <${StaleBanner} heardAt=${heardAt} staleMs=${staleMs} />
      <${Causes} status=${status} />
      <${Chain} ...${chainOf(known, rates)} />
      <${Ledger} status=${status} />
      <${Tiles} status=${status} history=${history} rates=${rates} />
      <${SpoolChart} history=${history} />
      <${Readers} readers=${status.readers} now=${status.now} />
      <${Details} status=${status} />
    </main>
    <footer>
      <p>Holdfast ${status.version}. Times are in this browser’s time zone, ages by the gateway’s clock.</p>
      <p>As JSON: <a href="status">status</a>, <a href="history">history</a></p>
    </footer>
  `;
}

/** How long ago `at` is, looked at every second even when nothing else happens. @param {number} at */
function useAge(at) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(0, now - at);
}

/** @param {(number | null)[] | undefined} column */
function meanOfLast(column) {
  const known = (column ?? []).slice(-RATE_SAMPLES).filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

const root = document.getElementById('app');
let opened = false;
new Feed((known) => {
  if (!opened) root.replaceChildren();
  opened = true;
  render(html`<${Page} known=${known} />`, root);
}).start();
