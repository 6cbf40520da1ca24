import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { chartOptions, HEIGHT_PX } from './chart-options.js';
import { count, duration, plural, time } from './format.js';
import { html } from './html.js';
import { UPSTREAM_STATES } from './stations.js';

/** Spool depth and the age of its oldest row over the last half hour; times without a cloud are shaded. */
export function SpoolChart({ history }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const box = useRef(null);
  const plot = useRef(null);
  const newest = useRef(history);
  newest.current = history;

  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      const options = chartOptions(box.current, { onPoint: setAt, upstream: () => newest.current?.upstream ?? [] });
      plot.current = new uPlot(options, dataOf(newest.current), box.current);
    };
    draw();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', draw);
    const resizes = new ResizeObserver(() => {
      const width = box.current.clientWidth;
      if (width !== plot.current.width) plot.current.setSize({ width, height: HEIGHT_PX });
    });
    resizes.observe(box.current);
    return () => {
      dark.removeEventListener('change', draw);
      resizes.disconnect();
      plot.current.destroy();
    };
  }, []);

  useEffect(() => plot.current?.setData(dataOf(history)), [history]);

  return html`
    <section class="panel" aria-labelledby="chart-title">
      <div class="chart-head">
        <h2 id="chart-title" class="panel-title">Spool over time</h2>
        <ul class="legend">
          <li><span class="swatch swatch-rows" aria-hidden="true"></span>Rows waiting</li>
          <li><span class="swatch swatch-age" aria-hidden="true"></span>Age of the oldest</li>
          <li><span class="swatch swatch-outage" aria-hidden="true"></span>Cloud not online</li>
        </ul>
      </div>
      <div class="chart" role="img" aria-label=${inWords(history)} ref=${box}></div>
      <p class="note chart-point" aria-hidden="true">${pointInWords(history, at)}</p>
    </section>
  `;
}

function dataOf(history) {
  return history ? [history.t, history.rows, history.oldestAgeMs] : [[], [], []];
}

/** What the line under the chart says of the moment under the cursor, or of the newest one. */
function pointInWords(history, at) {
  const last = (history?.t.length ?? 0) - 1;
  if (last < 0) return 'No samples yet';
  const i = at === null || at > last ? last : at;
  const when = time(history.t[i], history.t[last]);
  const cloud = UPSTREAM_STATES[history.upstream[i]].word.toLowerCase();
  return `${when}: ${plural(history.rows[i], 'row')}, oldest ${duration(history.oldestAgeMs[i])}, cloud ${cloud}`;
}

function inWords(history) {
  if (!history || history.t.length === 0) return 'Spool depth over time, no samples yet';
  const span = duration(history.t.at(-1) - history.t[0]);
  const away = history.upstream.filter((state) => state !== 'online').length;
  return (
    `Spool depth over the last ${span}: now ${plural(history.rows.at(-1), 'row')}, ` +
    `at most ${count(Math.max(...history.rows))}; oldest row at most ${duration(Math.max(...history.oldestAgeMs))} old; ` +
    `cloud not online in ${count(away)} of ${count(history.t.length)} samples.`
  );
}
