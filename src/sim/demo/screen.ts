/** What the demo shows in a terminal: a summary that is redrawn in place, or lines where nobody watches. */
import type { DemoResult, DemoTick } from './demo.js';

export interface Style {
  readonly colour: boolean;
}

const paint = (code: number) => (style: Style, text: string) => (style.colour ? `\x1b[${code}m${text}\x1b[0m` : text);
const bold = paint(1);
const dim = paint(2);
const red = paint(31);
const green = paint(32);
const yellow = paint(33);

const number = (value: number) => value.toLocaleString('en-US');
const seconds = (ms: number) => `${Math.round(ms / 1000)} s`;

/** A line a few seconds wide, for logs. */
export function tickLine(tick: DemoTick): string {
  const { gateway, ingest } = tick;
  const { spool, upstream } = gateway;
  return [
    `${seconds(tick.elapsedMs).padStart(5)}`,
    tick.phase === 'draining' ? 'draining' : tick.cut ? `WAN cut, ${seconds(tick.cut.leftMs)} left` : 'WAN up',
    `produced ${number(tick.produced)}`,
    `spooled ${number(spool.rows)} (oldest ${seconds(spool.oldestAgeMs)})`,
    `acknowledged ${number(spool.acknowledged)}`,
    `stored ${number(ingest.stored)}`,
    `lost ${number(lostNow(tick))}`,
    `upstream ${upstream.state}`,
  ].join('  ');
}

/** A block of lines of the same number every time, so that it can be redrawn in place. */
export function tickBlock(tick: DemoTick, style: Style): string[] {
  const { gateway, ingest } = tick;
  const { spool, upstream, readers, broker } = gateway;
  const online = readers.filter(({ state }) => state === 'online').length;
  const mark = (ok: boolean) => (ok ? green(style, '●') : red(style, '○'));
  const plan = tick.cut
    ? red(style, `cut, back in ${seconds(tick.cut.leftMs)}`)
    : tick.nextOutageInMs === null
      ? 'up'
      : `up, cut in ${seconds(tick.nextOutageInMs)}`;
  const depth = spool.rows > 2_000 || spool.oldestAgeMs > 3_000 ? yellow : dim;
  const lost = lostNow(tick);
  return [
    `${bold(style, 'holdfast demo')}  ${seconds(tick.elapsedMs)} of ${seconds(tick.forMs)}${tick.phase === 'draining' ? '  draining' : ''}`,
    '',
    `  ${mark(online === readers.length)} PLC line    ${online} of ${readers.length} machines online     ${number(tick.produced)} values served`,
    `  ${mark(spool.state === 'open')} spool       ${depth(style, `${number(spool.rows)} rows wait, the oldest for ${seconds(spool.oldestAgeMs)}`)}`,
    `  ${mark(tick.cut === null)} WAN         ${plan}`,
    `  ${mark(upstream.state === 'online')} upstream    ${upstream.state}${upstream.cause ? ` (${upstream.cause})` : ''}`,
    `  ${mark(ingest.connected)} historian   ${number(ingest.stored)} stored, ${number(ingest.duplicates)} duplicates absorbed`,
    '',
    `  received ${number(spool.received)} = spooled ${number(spool.rows)} + acknowledged ${number(spool.acknowledged)}   ${lost === 0 ? green(style, 'lost 0') : red(style, `lost ${lost}`)}   local clients ${broker.clients}`,
  ];
}

/** What the gateway's own accounting misses at this moment. */
function lostNow({ gateway: { spool } }: DemoTick): number {
  return spool.received - spool.rows - spool.acknowledged - spool.dropped - spool.dead;
}

export function resultTable(result: DemoResult, style: Style): string[] {
  const header = ['asset', 'produced', 'spooled', 'delivered', 'stored', 'duplicates absorbed', 'lost'];
  const rows = result.reconciliation.assets.map(({ asset, produced, spooled, delivered, stored, duplicates, lost }) => [
    asset,
    ...[produced, spooled, delivered, stored, duplicates, lost].map(number),
  ]);
  const total = [
    'total',
    ...[result.produced, result.spooled, result.delivered, result.stored, result.duplicates, result.lost].map(number),
  ];
  const widths = header.map((_, i) => Math.max(...[header, ...rows, total].map((row) => (row[i] as string).length)));
  const line = (row: readonly string[]) =>
    `  ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number))).join('  ')}`;
  const verdict = result.lost === 0 && result.foreign === 0;
  return [
    bold(style, 'Reconciliation: every value that the PLC served against the historian'),
    dim(style, line(header)),
    ...rows.map(line),
    bold(style, line(total)),
    '',
    `  conflicts ${number(result.conflicts)}, gap records ${number(result.gaps)}, ` +
      `outages ${result.outages}, deepest spool ${number(result.deepestRows)} rows`,
    verdict
      ? green(style, `  lost 0: all ${number(result.produced)} values are accounted for`)
      : red(style, `  lost ${number(result.lost)}, foreign ${number(result.foreign)}`),
  ];
}
