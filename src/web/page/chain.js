import { html } from './html.js';
import { StateIcon } from './icons.js';

/** PLCs → broker → spool → cloud, each with its state, since when, and two numbers. */
export function Chain({ stations, links }) {
  return html`
    <section aria-label="From the machines to the cloud">
      <ol class="chain">
        ${stations.map(
          (station, i) => html`
            ${i > 0 && html`<${Link} key=${`to ${station.name}`} ...${links[i - 1]} />`}
            <${Station} key=${station.name} ...${station} />
          `,
        )}
      </ol>
    </section>
  `;
}

/** @param {import('./stations.js').Station} props */
function Station({ name, tone, state, since, detail, facts }) {
  return html`
    <li class=${`station tone-${tone}`}>
      <h2>${name}</h2>
      <p class="station-state"><${StateIcon} tone=${tone} />${state}</p>
      <p class="station-since">${since}</p>
      ${detail && html`<p class="station-detail">${detail}</p>`}
      <dl class="pairs">
        ${facts.map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd>${value}</dd></div>`)}
      </dl>
    </li>
  `;
}

/** @param {import('./stations.js').Link} props */
function Link({ tone, cut, label, meaning }) {
  return html`
    <li class=${`link tone-${tone} ${cut ? 'link-cut' : ''}`}>
      <span class="link-label">${label}<span class="unseen">, ${meaning}</span></span>
      <span class="link-line" aria-hidden="true"></span>
    </li>
  `;
}
