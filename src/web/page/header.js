import { duration, time } from './format.js';
import { html } from './html.js';
import { StateIcon } from './icons.js';

const STATES = {
  ok: { tone: 'ok', word: 'OK', meaning: 'Everything runs' },
  degraded: { tone: 'warn', word: 'Degraded', meaning: 'Something outside is down; nothing is lost' },
  failed: { tone: 'bad', word: 'Failed', meaning: 'Nothing is acknowledged any more' },
};

/** @typedef {{ status: import('./feed.js').GatewayStatus, staleMs: number | null }} Props `staleMs` while there is no news */

/** What the browser's tab says. @param {Props} props */
export function titleOf({ status, staleMs }) {
  return `${staleMs === null ? STATES[status.state].word : 'No news'} · ${status.gateway} · Holdfast`;
}

/** The gateway's name and its state in one word. @param {Props} props */
export function Header({ status, staleMs }) {
  const known = STATES[status.state];
  const { tone, word, meaning } =
    staleMs === null ? known : { tone: 'idle', word: 'Unknown', meaning: `Last seen: ${known.word}` };
  return html`
    <header class="top">
      <img class="logo" src="icon.svg" alt="" width="32" height="32" />
      <h1>${status.gateway}<small>Holdfast gateway</small></h1>
      <p class=${`verdict tone-${tone}`} role="status">
        <${StateIcon} tone=${tone} /><b>${word}</b><span>${meaning}</span>
      </p>
      <p class=${`pulse ${staleMs === null ? '' : 'pulse-off'}`}>
        <span class="pulse-dot" aria-hidden="true"></span>
        ${staleMs === null ? `Live ${time(status.now, status.now)}` : `Silent for ${duration(staleMs)}`}
      </p>
    </header>
  `;
}

/** Says that what is shown is old. The sentence stands still, or a screen reader would repeat it each second. */
export function StaleBanner({ heardAt, staleMs }) {
  return html`
    <div role="alert">
      ${
        staleMs !== null &&
        html`
          <p class="banner tone-bad">
            <${StateIcon} tone="bad" />
            <span><b>No news from the gateway since ${time(heardAt, heardAt)}.</b> What is shown is from then. The page tries again by itself.</span>
          </p>
        `
      }
    </div>
  `;
}

/** The reasons for a state that is not OK, in the gateway's own words. */
export function Causes({ status }) {
  if (status.causes.length === 0) return null;
  const { tone } = STATES[status.state];
  return html`
    <ul class=${`banner causes tone-${tone}`} aria-label="Causes">
      ${status.causes.map((cause) => html`<li key=${cause}><${StateIcon} tone=${tone} />${cause}</li>`)}
    </ul>
  `;
}
