import { count, plural } from './format.js';
import { html } from './html.js';
import { StateIcon } from './icons.js';

/** The one question that matters, answered in large type: is every row that came in accounted for? */
export function Ledger({ status }) {
  const { received, rows, acknowledged, dropped, dead, balanced } = status.spool;
  const missing = received - rows - acknowledged - dropped - dead;
  const right = balanced && missing === 0;
  const gaps = status.readers.reduce((sum, reader) => sum + reader.gaps, 0);
  return html`
    <section class=${`panel ledger ${right ? '' : 'ledger-wrong'}`} aria-label="Accounting">
      <p class="ledger-lost">
        <b class="ledger-number">${count(Math.abs(missing))}</b>
        <span class=${`ledger-word tone-${right ? 'ok' : 'bad'}`}>
          <${StateIcon} tone=${right ? 'ok' : 'bad'} />${right ? 'lost' : missing < 0 ? 'counted twice' : 'not accounted for'}
        </span>
      </p>
      <div class="ledger-sum">
        <p class="equation">
          <${Term} value=${received} name="received" />
          <span class="sign">${right ? '=' : '≠'}</span>
          <${Term} value=${rows} name="in the spool" />
          <span class="sign">+</span>
          <${Term} value=${acknowledged} name="acknowledged" />
          ${dropped > 0 && html`<span class="sign">+</span><${Term} value=${dropped} name="dropped, with gap records" />`}
          ${dead > 0 && html`<span class="sign">+</span><${Term} value=${dead} name="set aside" />`}
        </p>
        <p class="note">${right ? explain(gaps) : html`The sums of the spool do not agree. Keep the file as it is and run <code>holdfast spool verify</code>.`}</p>
      </div>
    </section>
  `;
}

function Term({ value, name }) {
  return html`<span class="term"><b>${count(value)}</b><small>${name}</small></span>`;
}

/** @param {number} gaps */
function explain(gaps) {
  const holes =
    gaps === 0
      ? 'No outage of a PLC is on record.'
      : `${plural(gaps, 'outage')} of PLCs went into the record as a gap.`;
  return `Rows of this spool file since it was made, each either still on disk or confirmed by the cloud. ${holes}`;
}
