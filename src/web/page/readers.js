import { ago, count, milliseconds, NONE, sinceWhen } from './format.js';
import { html } from './html.js';
import { StateIcon } from './icons.js';
import { READER_STATES } from './stations.js';

/** What needs a look comes first. */
const ORDER = ['offline', 'degraded', 'starting', 'online'];

/** @typedef {import('../../model/status.js').ReaderStatus} ReaderStatus */

/** @type {[string, (reader: ReaderStatus, now: number) => unknown, number?][]} name, cell, and 1 for a figure */
const COLUMNS = [
  ['State', (r, now) => html`<${State} reader=${r} now=${now} />`],
  ['Last good', (r, now) => ago(r.lastOkAt, now), 1],
  [
    'Round trip',
    (r) =>
      r.rttMsP50 === null
        ? NONE
        : html`${milliseconds(r.rttMsP50)}<small class="beside">p99 ${milliseconds(r.rttMsP99)}</small>`,
    1,
  ],
  ['Readings', (r) => count(r.readings), 1],
  ['Timeouts', (r) => count(r.timeouts), 1],
  ['Exceptions', (r) => count(r.exceptions), 1],
  ['Late', (r) => count(r.lateAnswers), 1],
  ['Missed', (r) => count(r.missedCycles), 1],
  ['Gaps', (r) => count(r.gaps), 1],
];

/** A table on a desk, a stack of cards on a phone; the roles keep it a table for screen readers in both. */
export function Readers({ readers, now }) {
  const sorted = [...readers].sort(
    (a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.asset.localeCompare(b.asset, 'en'),
  );
  return html`
    <section class="panel" aria-labelledby="readers-title">
      <h2 id="readers-title" class="panel-title">PLCs</h2>
      ${
        readers.length === 0
          ? html`<p class="note">This gateway polls no PLC. Publishers on its broker are carried all the same.</p>`
          : html`
            <table class="readers" role="table">
              <thead role="rowgroup">
                <tr role="row">
                  <th role="columnheader" scope="col">Asset</th>
                  ${COLUMNS.map(([name, , figure]) => html`<th key=${name} role="columnheader" scope="col" class=${figure ? 'figure' : ''}>${name}</th>`)}
                </tr>
              </thead>
              <tbody role="rowgroup">
                ${sorted.map((reader) => html`<${Row} key=${reader.asset} reader=${reader} now=${now} />`)}
              </tbody>
            </table>
          `
      }
    </section>
  `;
}

function Row({ reader, now }) {
  return html`
    <tr role="row">
      <th role="rowheader" scope="row">${reader.asset}<small class="under">${reader.url}</small></th>
      ${COLUMNS.map(
        ([name, cell, figure]) => html`
          <td key=${name} role="cell" class=${figure ? 'figure' : ''}>
            <span class="cell-name" aria-hidden="true">${name}</span><span class="cell-value">${cell(reader, now)}</span>
          </td>
        `,
      )}
    </tr>
  `;
}

function State({ reader, now }) {
  const { tone, word } = READER_STATES[reader.state];
  return html`
    <span class="state-word"><${StateIcon} tone=${tone} />${word}</span>
    <small class="under">${sinceWhen(reader.since, now)}${reader.cause ? `: ${reader.cause}` : ''}</small>
  `;
}
