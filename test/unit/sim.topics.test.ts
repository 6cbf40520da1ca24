import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTopicFilter, isTopicName, matches, Subscriptions } from '../../src/sim/cloud/topics.js';

test('filters match as the standard says', () => {
  const cases: [filter: string, topic: string, expected: boolean][] = [
    ['a/b', 'a/b', true],
    ['a/b', 'a/b/c', false],
    ['a/+', 'a/b', true],
    ['a/+', 'a', false],
    ['a/+', 'a/', true],
    ['+', 'a/b', false],
    ['#', 'a/b/c', true],
    ['a/#', 'a', true],
    ['a/#', 'a/b/c', true],
    ['a/#', 'ab', false],
    ['+/+', '/a', true],
    ['#', '$SYS/x', false],
    ['+/x', '$SYS/x', false],
    ['$SYS/#', '$SYS/x', true],
  ];
  for (const [filter, topic, expected] of cases)
    assert.equal(matches(filter.split('/'), topic.split('/')), expected, `${filter} on ${topic}`);
});

test('wrong filters and names are told apart from right ones', () => {
  for (const filter of ['a', '#', '+', 'a/+/b', 'a/#', '/', '+/#']) assert.ok(isTopicFilter(filter), filter);
  for (const filter of ['', 'a#', 'a/#/b', 'a+', '+a', 'a\0']) assert.ok(!isTopicFilter(filter), filter);
  for (const name of ['', 'a/+', '#', 'a\0b', '\ufffd'.repeat(30_000)]) assert.ok(!isTopicName(name), name.slice(0, 9));
});

test('a change of subscriptions is seen by a topic that was matched before', () => {
  const subscriptions = new Subscriptions<{ name: string }, number>();
  const [one, two] = [{ name: 'one' }, { name: 'two' }];
  const owners = () => subscriptions.match('a/b').map(({ owner, options }) => `${owner.name}${options}`);
  assert.deepEqual(owners(), []);
  assert.equal(subscriptions.add(one, 'a/+', 0), true);
  assert.deepEqual(owners(), ['one0']);
  assert.equal(subscriptions.add(one, 'a/+', 1), false);
  subscriptions.add(two, '#', 2);
  assert.deepEqual(owners(), ['one1', 'two2']);
  assert.equal(subscriptions.remove(one, 'a/+'), true);
  assert.equal(subscriptions.remove(one, 'a/+'), false);
  assert.deepEqual(owners(), ['two2']);
  subscriptions.removeAll(two);
  assert.deepEqual(owners(), []);
});
