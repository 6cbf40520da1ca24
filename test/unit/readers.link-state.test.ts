import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HoldfastError } from '../../src/lib/errors.js';
import { type LinkEvent, type LinkState, nextLinkState } from '../../src/readers/modbus/link-state.js';

const reason = new HoldfastError('device.link', 'gone');
const states: LinkState[] = [
  { name: 'closed' },
  { name: 'connecting' },
  { name: 'open' },
  { name: 'resting' },
  { name: 'backoff', reason },
];
const events: LinkEvent[] = [
  { name: 'start' },
  { name: 'connected' },
  { name: 'lost', reason },
  { name: 'retry' },
  { name: 'rest' },
  { name: 'wake' },
  { name: 'stop' },
];

test('every state and event of a link', () => {
  const table = Object.fromEntries(
    states.map((state) => [
      state.name,
      events.map((event) => {
        const next = nextLinkState(state, event);
        return next === state ? '-' : next.name;
      }),
    ]),
  );
  assert.deepEqual(table, {
    //           start, connected, lost, retry, rest, wake, stop
    closed: ['connecting', '-', '-', '-', '-', '-', '-'],
    connecting: ['-', 'open', 'backoff', '-', '-', '-', 'closed'],
    open: ['-', '-', 'backoff', '-', 'resting', '-', 'closed'],
    resting: ['-', '-', '-', '-', '-', 'connecting', 'closed'],
    backoff: ['-', '-', '-', 'connecting', '-', '-', 'closed'],
  });
});

test('a link that waits knows why', () => {
  assert.deepEqual(nextLinkState({ name: 'open' }, { name: 'lost', reason }), { name: 'backoff', reason });
});
