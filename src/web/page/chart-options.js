import { countShort, duration } from './format.js';

export const HEIGHT_PX = 240;
/** A young history is not stretched over the whole width. */
const SPAN_MS_MIN = 120_000;
/** Below these the axes do not zoom in, or a spool that is merely working would look like a mountain range. */
const ROWS_TOP_MIN = 100;
const AGE_TOP_MS_MIN = 30_000;

const S = 1_000;
const MIN = 60 * S;
const H = 60 * MIN;
/** Steps for an axis of time spans; the default decimal ones would give "2 min 46 s". */
const AGE_STEPS_MS = [
  2 * S,
  5 * S,
  10 * S,
  30 * S,
  MIN,
  2 * MIN,
  5 * MIN,
  10 * MIN,
  30 * MIN,
  H,
  2 * H,
  6 * H,
  24 * H,
  168 * H,
];

const hourMinute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const hourMinuteSecond = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/**
 * Options for uPlot in the colours of the page's theme.
 *
 * @param {HTMLElement} box
 * @param {{ onPoint: (index: number | null) => void, upstream: () => string[] }} wiring
 */
export function chartOptions(box, { onPoint, upstream }) {
  const style = getComputedStyle(box);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const font = `12px ${style.fontFamily}`;
  const axis = { stroke: colour('muted'), font, grid: { stroke: colour('line'), width: 1 }, ticks: { show: false } };
  const top = (least, headroom) => (_, __, max) => [0, Math.max(least, (max ?? 0) * headroom)];
  return {
    width: box.clientWidth,
    height: HEIGHT_PX,
    ms: 1,
    padding: [12, 0, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 7 }, y: false },
    scales: {
      x: { range: ({ data }) => spanOf(data[0]) },
      rows: { range: top(ROWS_TOP_MIN, 1.1) },
      // More headroom than the rows have, because at a steady rate the two curves would lie on each other.
      age: { range: top(AGE_TOP_MS_MIN, 1.4) },
    },
    series: [
      {},
      { scale: 'rows', stroke: colour('rows'), fill: colour('rows-fill'), width: 2, points: { show: false } },
      { scale: 'age', stroke: colour('age'), width: 2, dash: [6, 4], points: { show: false } },
    ],
    axes: [
      {
        ...axis,
        size: 28,
        space: 72,
        values: (_, splits, __, ___, step) => splits.map((t) => clockFor(step).format(t)),
      },
      {
        ...axis,
        scale: 'rows',
        stroke: colour('rows'),
        size: 52,
        space: 40,
        incrs: wholeSteps(),
        values: (_, splits) => splits.map(countShort),
      },
      {
        ...axis,
        scale: 'age',
        stroke: colour('age'),
        side: 1,
        size: 70,
        space: 40,
        incrs: AGE_STEPS_MS,
        grid: { show: false },
        values: (_, splits) => splits.map(duration),
      },
    ],
    hooks: {
      drawClear: [(plot) => shade(plot, upstream(), colour)],
      setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)],
    },
  };
}

/** From the oldest sample to the newest. @param {number[]} t */
function spanOf(t) {
  const last = t.at(-1) ?? Date.now();
  return [Math.min(t[0] ?? last, last - SPAN_MS_MIN), last];
}

const clockFor = (stepMs) => (stepMs < MIN ? hourMinuteSecond : hourMinute);

/** 1, 2, 5, 10, 20 …: there is no half row. */
function wholeSteps() {
  return Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
}

/** Paints the runs of samples in which the cloud was not online behind everything else. */
function shade(plot, upstream, colour) {
  const { ctx, bbox, data } = plot;
  const t = data[0];
  const x = (i) => plot.valToPos(t[i], 'x', true);
  ctx.save();
  for (let i = 0; i < upstream.length && i < t.length; i++) {
    if (upstream[i] === 'online') continue;
    const from = i;
    while (i + 1 < t.length && upstream[i] !== 'online') i++;
    const left = Math.max(bbox.left, x(from));
    const width = Math.max(2, x(i) - left);
    ctx.fillStyle = colour('outage');
    ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.fillStyle = colour('outage-edge');
    ctx.fillRect(left, bbox.top, width, Math.max(2, bbox.height / 100));
  }
  ctx.restore();
}
