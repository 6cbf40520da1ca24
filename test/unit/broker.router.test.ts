import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_LIMITS } from '../../src/broker/limits.js';
import { RetainedStore } from '../../src/broker/retained.js';
import { type Receiver, Router, type Subscription } from '../../src/broker/router.js';
import { isReserved, isValidFilter } from '../../src/broker/topics.js';

class Member implements Receiver {
  readonly id: string;
  ready: 0 | 1 | 2 = 2;
  readonly subscriptions = new Map<string, Subscription<this>>();
  constructor(id: string) {
    this.id = id;
  }
  readiness(): 0 | 1 | 2 {
    return this.ready;
  }
}

const OPTIONS = { qos: 1 as const, noLocal: false, retainAsPublished: false, retainHandling: 0, id: 0 };

/** [MQTT5 4.7.1, 4.7.2], the examples of the standard and the edges around them. */
const MATCHES: readonly [filter: string, topic: string, matches: boolean][] = [
  ['sport/tennis/player1/#', 'sport/tennis/player1', true],
  ['sport/tennis/player1/#', 'sport/tennis/player1/ranking', true],
  ['sport/tennis/player1/#', 'sport/tennis/player1/score/wimbledon', true],
  ['sport/#', 'sport', true],
  ['#', 'a', true],
  ['#', '/', true],
  ['#', '$SYS/a', false],
  ['+/a', '$SYS/a', false],
  ['$SYS/#', '$SYS/a', true],
  ['$SYS/+', '$SYS/a', true],
  ['sport/tennis/+', 'sport/tennis/player1', true],
  ['sport/tennis/+', 'sport/tennis/player1/ranking', false],
  ['sport/+', 'sport', false],
  ['sport/+', 'sport/', true],
  ['+/+', '/finance', true],
  ['/+', '/finance', true],
  ['+', '/finance', false],
  ['a/+/b/#', 'a/x/b', true],
  ['a/+/b/#', 'a/x/c', false],
  ['a/$x', 'a/$x', true],
  ['__proto__/+', '__proto__/constructor', true],
  ['A', 'a', false],
];

test('filters match topics as the standard says, for live and for retained messages', () => {
  for (const [filter, topic, matches] of MATCHES) {
    const router = new Router<Member>();
    const member = new Member('m');
    router.add(member, filter, OPTIONS);
    assert.equal(router.match(topic, null).length === 1, matches, `${filter} and ${topic}`);
    const retained = new RetainedStore(DEFAULT_LIMITS);
    retained.set({
      topic,
      payload: Buffer.from('x'),
      props: null,
      qos: 0,
      deadline: 0,
      sender: null,
      user: null,
      storedAt: 0,
    });
    assert.equal(retained.match(filter, 0).length === 1, matches, `retained: ${filter} and ${topic}`);
    router.remove(member, filter);
    assert.equal(router.match(topic, null).length, 0);
    assert.equal(router.count, 0);
  }
});

test('one copy for each session: the highest QoS, all identifiers, retain as published if any says so', () => {
  const router = new Router<Member>();
  const member = new Member('m');
  router.add(member, 'a/#', { ...OPTIONS, qos: 0, id: 3 });
  router.add(member, 'a/+', { ...OPTIONS, qos: 2, id: 5, retainAsPublished: true });
  router.add(member, 'a/b', { ...OPTIONS, id: 3 });
  router.add(member, '+/b', { ...OPTIONS, qos: 2, id: 9, noLocal: true });
  const own = router.match('a/b', 'm');
  assert.deepEqual(
    own.map(({ qos, ids, retainAsPublished }) => [qos, ids?.toSorted(), retainAsPublished]),
    [[2, [3, 5], true]],
  );
  assert.deepEqual(router.match('a/b', 'other')[0]?.ids?.toSorted(), [3, 5, 9]);
});

test('a change of subscriptions is seen by the next message, although matches are remembered', () => {
  const router = new Router<Member>();
  const [a, b] = [new Member('a'), new Member('b')];
  router.add(a, 'x', OPTIONS);
  assert.equal(router.match('x', null).length, 1);
  const before = router.version;
  router.add(b, '+', OPTIONS);
  assert.equal(router.match('x', null).length, 2);
  assert.deepEqual(
    router.matchSince(before, 'x', null).map(({ session }) => session.id),
    ['b'],
  );
  router.add(a, 'x', { ...OPTIONS, qos: 2 });
  assert.deepEqual(
    router.matchSince(before, 'x', null).map(({ session }) => session.id),
    ['b'],
    'a changed one is not new',
  );
  router.remove(a, 'x');
  assert.deepEqual(
    router.match('x', null).map(({ session }) => session.id),
    ['b'],
  );
});

test('of a shared group one member gets it: in turn, who has room first, who is away last', () => {
  const router = new Router<Member>();
  const [a, b, c] = [new Member('a'), new Member('b'), new Member('c')];
  for (const member of [a, b, c]) router.add(member, '$share/g/x', OPTIONS);
  router.add(a, '$share/h/x', OPTIONS);
  router.remove(a, '$share/h/x');
  const takers = () => router.match('x', null).map(({ session }) => session.id);
  assert.deepEqual([takers(), takers(), takers(), takers()].flat(), ['a', 'b', 'c', 'a']);
  b.ready = 1;
  c.ready = 0;
  assert.deepEqual([takers(), takers()].flat(), ['a', 'a']);
  a.ready = 0;
  assert.deepEqual(takers(), ['b']);
  b.ready = 0;
  assert.deepEqual(takers(), []);
});

test('retained messages are counted, replaced, removed and expired', () => {
  const store = new RetainedStore({ ...DEFAULT_LIMITS, retainedMax: 2 });
  const message = (topic: string, text: string, deadline = 0) => ({
    topic,
    payload: Buffer.from(text),
    props: null,
    qos: 0 as const,
    deadline,
    sender: null,
    user: null,
    storedAt: 0,
  });
  store.set(message('a', '1'));
  store.set(message('a/b', '2', 100));
  assert.equal(store.hold('c', 1), false);
  assert.equal(store.hold('a', 1), true);
  const { bytes } = store;
  store.set(message('a', '12'));
  assert.equal(store.bytes, bytes + 1);
  assert.deepEqual(
    store.match('#', 99).map(({ topic }) => topic),
    ['a', 'a/b'],
  );
  assert.deepEqual(
    store.match('#', 100).map(({ topic }) => topic),
    ['a'],
  );
  assert.deepEqual(store.expire(100), ['a/b']);
  store.set(message('a', ''));
  store.set(message('never', ''));
  assert.deepEqual([store.count, store.bytes], [0, 0]);
});

test('filters with misplaced wildcards are refused, reserved topics are known', () => {
  for (const filter of ['a/#', '#', '+', '/', 'a/+/b', '$share/g/a', '$share/g/#', '$SYS/#'])
    assert.ok(isValidFilter(filter, DEFAULT_LIMITS), filter);
  for (const filter of [
    '',
    'a#',
    '+a',
    'a/#/b',
    'a+/b',
    '$share/g',
    '$share/g/',
    '$share//a',
    '$share/+/a',
    'a\0',
    '/'.repeat(DEFAULT_LIMITS.topicLevelsMax),
    'é'.repeat(DEFAULT_LIMITS.topicBytesMax / 2 + 1),
  ])
    assert.ok(!isValidFilter(filter, DEFAULT_LIMITS), filter);
  for (const topic of ['$SYS/x', '$share/g/x', '$x', '$SYS/broker/connection/a/b/state'])
    assert.ok(isReserved(topic), topic);
  for (const topic of ['a', 'a/$x', '$SYS/broker/connection/a/state']) assert.ok(!isReserved(topic), topic);
});
