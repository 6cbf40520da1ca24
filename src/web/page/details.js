import { bytes, count, NONE, plural, time } from './format.js';
import { html } from './html.js';
import { UPSTREAM_STATES } from './stations.js';

/** The counters behind the stations, for whoever digs. */
export function Details({ status }) {
  const { broker, upstream, spool, now, startedAt } = status;
  const perRow = upstream.rowsSent > 0 ? `${bytes(upstream.bytesSent / upstream.rowsSent)} a row` : NONE;
  return html`
    <div class="details">
      <${Pairs}
        title="Cloud link"
        pairs=${{
          Address: upstream.url,
          State: UPSTREAM_STATES[upstream.state].word,
          Connections: `${count(upstream.connects)} since the start`,
          'Rows sent': count(upstream.rowsSent),
          'Rows acknowledged': count(upstream.rowsAcknowledged),
          'Bytes sent': `${bytes(upstream.bytesSent)}, ${perRow}`,
        }}
      />
      <${Pairs}
        title="Plant broker"
        pairs=${{
          Listens: broker.addresses.join(', ') || NONE,
          Sessions: `${count(broker.sessions)}, ${plural(broker.clients, 'client')} connected`,
          Subscriptions: count(broker.subscriptions),
          Retained: `${count(broker.retained)}, ${bytes(broker.retainedBytes)}`,
          'Kept for absent clients': `${plural(broker.queuedRows, 'message')}, ${bytes(broker.queuedBytes)}`,
          Connections: `${count(broker.connections)} since the start, ${count(broker.turnedAway)} turned away`,
          'Failed logins': count(broker.failedLogins),
          Takeovers: count(broker.takeovers),
          Received: plural(broker.received, 'message'),
          Sent: plural(broker.sent, 'message'),
          Dropped: dropped(broker.dropped),
        }}
      />
      <${Pairs}
        title="Spool file"
        pairs=${{
          'On disk': bytes(spool.fileBytes),
          'Limit of rows kept': bytes(spool.bytesMax),
          'Newest row': count(spool.tail),
          'Oldest row': spool.rows > 0 ? count(spool.head) : NONE,
          Epoch: spool.epoch,
          'Gateway started': time(startedAt, now),
        }}
      />
    </div>
  `;
}

function Pairs({ title, pairs }) {
  return html`
    <section class="panel" aria-label=${title}>
      <h2 class="panel-title">${title}</h2>
      <dl class="pairs pairs-wide">
        ${Object.entries(pairs).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
      </dl>
    </section>
  `;
}

/** The reasons that happened, or a word that none did. @param {Readonly<Record<string, number>>} reasons */
function dropped(reasons) {
  const happened = Object.entries(reasons).filter(([, n]) => n > 0);
  if (happened.length === 0) return '0';
  return happened.map(([reason, n]) => `${count(n)} ${reason.replaceAll(/[-_]/g, ' ')}`).join(', ');
}
