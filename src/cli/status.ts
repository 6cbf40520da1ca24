import type { GatewayStatus } from '../model/status.js';
import type { CliCommand } from './command.js';
import { fetchStatus, type StatusFlags, showStatus } from './fetch-status.js';
import { bytes, duration, number, rows } from './status-text.js';

/** Beyond this share of its room the spool needs somebody before the next long outage. */
const USED_SHARE_MAX = 0.85;

export const status: CliCommand = (program, act) => {
  program
    .command('status')
    .description('a running gateway: links, spool, replay, drain; exit code 1 when something needs a human')
    .option('--url <url>', 'its web address', 'http://127.0.0.1:8080')
    .option('--json', 'the whole status as one object')
    .option('--watch', 'again every second, until interrupted')
    .action(
      act((io, { url, ...flags }: StatusFlags & { url: string }) =>
        showStatus(io, flags, () => fetchStatus<GatewayStatus>(url, io.stop), screen, findings),
      ),
    );
};

function screen({
  gateway,
  version,
  state,
  now,
  startedAt,
  spool,
  upstream,
  broker,
  readers,
}: GatewayStatus): string[] {
  const full =
    spool.secondsUntilFull === null ? '' : `, full in ${duration(spool.secondsUntilFull * 1000)} without a cloud`;
  const given = [
    `${number(spool.received)} in = ${number(spool.rows)} here + ${number(spool.acknowledged)} acknowledged`,
    `${number(spool.dropped)} dropped + ${number(spool.dead)} set aside`,
  ].join(' + ');
  const up = readers.filter((reader) => reader.state === 'online').length;
  return [
    `${gateway}: ${state}, version ${version}, up ${duration(now - startedAt)}`,
    ...rows([
      ['cloud', `${upstream.state} for ${duration(now - upstream.since)}, ${upstream.url}`],
      [
        '',
        `last acknowledgement ${upstream.lastAckAt === null ? 'never' : `${duration(now - upstream.lastAckAt)} ago`}`,
      ],
      [
        'replay',
        `${number(upstream.rowsAcknowledged)} rows, ${bytes(upstream.bytesSent)} sent, ${upstream.batchesInFlight} batches in flight`,
      ],
      ['drain', spool.rows === 0 ? 'nothing waits' : `done in ${duration(upstream.drainEtaMs)}`],
      [
        'spool',
        `${number(spool.rows)} rows, ${bytes(spool.bytes)}, oldest ${duration(spool.oldestAgeMs)}, ${spool.state}`,
      ],
      ['', `${Math.round(spool.usedShare * 100)} % of ${bytes(spool.bytesMax)} used${full}`],
      ['account', `${given}: ${spool.balanced ? 'adds up' : 'DOES NOT ADD UP'}`],
      ['broker', `${broker.clients} clients, ${broker.subscriptions} subscriptions, ${broker.retained} retained`],
      ['devices', `${up} of ${readers.length} online`],
    ]),
    ...readers
      .filter((reader) => reader.state !== 'online')
      .map(({ asset, state, cause }) => `    ${asset} ${state}${cause ? `: ${cause}` : ''}`),
  ];
}

/** What does not mend itself, or not before something is lost. An outage of the cloud alone is what the spool is for. */
function findings({ state, spool, upstream, causes, readers }: GatewayStatus): string[] {
  return [
    state === 'failed' && (causes[0] ?? 'nothing is acknowledged any more'),
    spool.state === 'full' && 'the spool is full: acknowledgements wait',
    spool.state === 'open' &&
      spool.usedShare >= USED_SHARE_MAX &&
      `the spool is ${Math.floor(spool.usedShare * 100)} % full`,
    spool.dropped > 0 && `${number(spool.dropped)} messages were dropped; the gap records say which`,
    spool.dead > 0 && `${number(spool.dead)} messages are set aside: holdfast spool list --dead shows them`,
    upstream.state === 'held' && `the cloud takes nothing: ${upstream.cause ?? 'it does not say why'}`,
    ...readers
      .filter((reader) => reader.state === 'offline')
      .map(({ asset, cause }) => `${asset} is offline${cause ? `: ${cause}` : ''}`),
  ].filter((finding) => finding !== false);
}
