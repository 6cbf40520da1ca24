import htm from 'htm';
import { h } from 'preact';

/** Markup as tagged templates: no build step of its own, and nothing the content security policy would refuse. */
export const html = htm.bind(h);
