/** Defect: nothing is ever synced. */
import { replacePragma } from './pragmas.js';

replacePragma(/^synchronous =/, 'synchronous = OFF', { name: 'synchronous', value: 2 });
