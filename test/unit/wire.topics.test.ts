import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FilterSet } from '../../src/wire/filter-set.js';
import { TopicTemplate } from '../../src/wire/topic-template.js';
import { matches, topicFilterProblem, topicNameProblem } from '../../src/wire/topics.js';

test('filters take what the standard says they take', () => {
  for (const [filter, topic, taken] of [
    ['sport/tennis/player1/#', 'sport/tennis/player1', true],
    ['sport/tennis/player1/#', 'sport/tennis/player1/score/wimbledon', true],
    ['sport/#', 'sport', true],
    ['#', 'a/b', true],
    ['#', '/', true],
    ['+', 'finance', true],
    ['+', '/finance', false],
    ['+/+', '/finance', true],
    ['/+', '/finance', true],
    ['sport/+', 'sport', false],
    ['sport/+', 'sport/', true],
    ['sport/+/player1', 'sport/tennis/player1', true],
    ['sport/tennis/+', 'sport/tennis/player1/ranking', false],
    ['#', '$SYS/broker', false],
    ['+/broker', '$SYS/broker', false],
    ['$SYS/#', '$SYS/broker', true],
    ['$SYS/+', '$SYS/broker', true],
    ['a/+/$b', 'a/x/$b', true],
    ['ACCOUNTS', 'Accounts', false],
  ] as const) {
    assert.equal(matches(filter, topic), taken, `${filter} ${topic}`);
    const set = new FilterSet([filter]);
    assert.deepEqual([set.matches(topic), set.matches(topic)], [taken, taken]);
  }
});

test('names and filters that the standard forbids are named', () => {
  const long = 'ü'.repeat(32_768);
  for (const name of ['', 'a/#', '+', 'a\0b', '\ud800', long]) assert.ok(topicNameProblem(name), name.slice(0, 20));
  for (const name of ['a', '/', 'a//b', ' ', '$SYS/x', long.slice(1)]) assert.equal(topicNameProblem(name), undefined);
  for (const filter of ['', 'a#', '#/a', 'a/#/b', 'a+', '+a/b', 'a\0', long]) assert.ok(topicFilterProblem(filter));
  for (const filter of ['#', '+', '+/+', 'a/+/#', '/', '$share/g/a'])
    assert.equal(topicFilterProblem(filter), undefined);
});

test('a filter set answers with the first filter, however many topics it has seen', () => {
  const set = new FilterSet(['a/+', 'a/b', 'c/#']);
  assert.equal(set.indexOf('a/b'), 0);
  assert.equal(set.indexOf('c'), 2);
  for (let n = 0; n < 25_000; n++) assert.equal(set.indexOf(`a/${n}`), 0);
  assert.equal(set.indexOf('x/y'), -1);
  assert.throws(() => new FilterSet(['a/#/b']), { code: 'config.invalid' });
});

test('a template reads and writes topics', () => {
  const template = TopicTemplate.parse('plant/{asset}/line-{line}/{metric}');
  assert.equal(template.filter, 'plant/+/+/+');
  assert.deepEqual(template.fields, ['asset', 'line', 'metric']);
  const fields = { asset: 'press 01', line: '7', metric: 'a.b' };
  assert.deepEqual(template.match('plant/press 01/line-7/a.b'), fields);
  assert.equal(template.format(fields), 'plant/press 01/line-7/a.b');
  for (const topic of [
    'plant/p/line-7',
    'plant/p/line-/m',
    'plant//line-7/m',
    'plant/p/line-7/m/x',
    'xplant/p/line-7/m',
  ])
    assert.equal(template.match(topic), undefined, topic);
  assert.equal(TopicTemplate.parse('a.b/{x}').match('aXb/1'), undefined);
});

test('a template that begins with a field takes no system topic', () => {
  const template = TopicTemplate.parse('{site}/{metric}');
  assert.deepEqual(template.match('a/b'), { site: 'a', metric: 'b' });
  assert.equal(template.match('$SYS/b'), undefined);
});

test('templates and fields that cannot work are refused', () => {
  for (const text of ['', 'a/{b', 'a/b}', 'a/{}', 'a/{x}{y}', '{x}/{x}', 'a/#', 'a/{x y}'])
    assert.throws(() => TopicTemplate.parse(text), { code: 'config.invalid' }, text);
  const template = TopicTemplate.parse('a/{x}');
  for (const x of ['', 'a/b', '+', 'a#', 'a\0'])
    assert.throws(() => template.format({ x }), { code: 'config.invalid' }, JSON.stringify(x));
  assert.throws(() => template.format({}), /x is missing/);
});
