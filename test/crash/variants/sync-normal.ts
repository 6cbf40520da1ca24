/** Defect: commits that the device has not got yet. */
import { replacePragma } from './pragmas.js';

replacePragma(/^synchronous =/, 'synchronous = NORMAL', { name: 'synchronous', value: 2 });
