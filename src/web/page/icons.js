import { html } from './html.js';

/** One shape for each tone, so that no state is told by colour alone. */
const SHAPES = {
  ok: html`<circle class="icon-body" cx="8" cy="8" r="7.2" /><path class="icon-mark" d="M4.6 8.3l2.3 2.3 4.5-4.9" />`,
  warn: html`<path class="icon-body" d="M8 1.2l7.2 13.2H.8z" /><path class="icon-mark" d="M8 6v3.8M8 12.1v.2" />`,
  bad: html`<path class="icon-body" d="M5 .8h6L15.2 5v6L11 15.2H5L.8 11V5z" /><path class="icon-mark" d="M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2" />`,
  idle: html`<circle class="icon-ring" cx="8" cy="8" r="6.4" /><path class="icon-dash" d="M5 8h6" />`,
};

/** Beside a word that says the same, so hidden from screen readers. @param {{ tone: keyof typeof SHAPES }} props */
export function StateIcon({ tone }) {
  return html`<svg class=${`icon tone-${tone}`} viewBox="0 0 16 16" aria-hidden="true">${SHAPES[tone]}</svg>`;
}
