import { assertNever } from '../../lib/assert.js';
import type { HoldfastError } from '../../lib/errors.js';

export type LinkState =
  | { readonly name: 'closed' }
  | { readonly name: 'connecting' }
  | { readonly name: 'open' }
  /** Closed until there is something to ask again. */
  | { readonly name: 'resting' }
  /** Waits before it tries again, and knows why the last connection failed or ended. */
  | { readonly name: 'backoff'; readonly reason: HoldfastError };

export type LinkEvent =
  | { readonly name: 'start' }
  | { readonly name: 'connected' }
  /** An attempt to connect came to nothing, or the connection ended. */
  | { readonly name: 'lost'; readonly reason: HoldfastError }
  | { readonly name: 'retry' }
  /** Nothing to ask for now, and the device wants its connection back. */
  | { readonly name: 'rest' }
  | { readonly name: 'wake' }
  | { readonly name: 'stop' };

/** An event that comes too late for its state changes nothing: the very same state comes back. */
export function nextLinkState(state: LinkState, event: LinkEvent): LinkState {
  switch (event.name) {
    case 'start':
      return state.name === 'closed' ? { name: 'connecting' } : state;
    case 'connected':
      return state.name === 'connecting' ? { name: 'open' } : state;
    case 'lost':
      return state.name === 'connecting' || state.name === 'open' ? { name: 'backoff', reason: event.reason } : state;
    case 'retry':
      return state.name === 'backoff' ? { name: 'connecting' } : state;
    case 'rest':
      return state.name === 'open' ? { name: 'resting' } : state;
    case 'wake':
      return state.name === 'resting' ? { name: 'connecting' } : state;
    case 'stop':
      return state.name === 'closed' ? state : { name: 'closed' };
    default:
      return assertNever(event, 'link event');
  }
}
