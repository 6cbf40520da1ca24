import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acl, READ, WRITE } from '../../src/broker/acl-file.js';
import { covers, matches, overlap } from '../../src/broker/filter-levels.js';
import { Random } from '../helpers/random.js';

const acl = (...lines: string[]) => Acl.parse(lines.join('\n'), 'acl');
const rights = (rules: Acl, user: string | null, topic: string, clientId = 'c') =>
  [rules.allows({ user, clientId }, READ, topic) && 'read', rules.allows({ user, clientId }, WRITE, topic) && 'write']
    .filter(Boolean)
    .join('+');

test('nothing is allowed that no line grants', () => {
  for (const rules of [acl(''), acl('# topic a', ''), acl('user alice'), acl('topic deny a')]) {
    assert.equal(rights(rules, null, 'a'), '');
    assert.equal(rights(rules, 'alice', 'a'), '');
  }
});

test('lines before the first user are for anonymous clients, the others for their user', () => {
  const rules = acl(
    'topic read open',
    'user alice',
    'topic write a',
    'user bob',
    'topic b',
    'user alice',
    'topic read c',
  );
  assert.deepEqual(
    [null, 'alice', 'bob', 'carol'].map((user) => ['open', 'a', 'b', 'c'].map((topic) => rights(rules, user, topic))),
    [
      ['read', '', '', ''],
      ['', 'write', '', 'read'],
      ['', '', 'read+write', ''],
      ['', '', '', ''],
    ],
  );
});

test('a deny wins wherever it stands, but a pattern does not take away what the user has', () => {
  const rules = acl(
    'user u',
    'topic a/#',
    'topic deny a/secret',
    'topic read x',
    'pattern deny x',
    'pattern y',
    'pattern deny y',
  );
  assert.equal(rights(rules, 'u', 'a/b'), 'read+write');
  assert.equal(rights(rules, 'u', 'a/secret'), '');
  assert.equal(rights(rules, 'u', 'x'), 'read');
  assert.equal(rights(rules, 'u', 'y'), '');
});

test('filters match as in a subscription', () => {
  const cases: [filter: string, matching: string[], other: string[]][] = [
    ['a/#', ['a', 'a/', 'a/b/c'], ['ab', '/a', 'b']],
    ['a/+', ['a/', 'a/b'], ['a', 'a/b/c']],
    ['+/+', ['a/b', '/'], ['a', 'a/b/c']],
    ['/+', ['/a', '/'], ['a', '/a/b']],
    ['a/+/#', ['a/b', 'a/b/c'], ['a']],
    ['with blanks/#', ['with blanks/x'], ['with']],
    ['#', ['a', '/', 'a/b'], ['$SYS/x', '$x']],
    ['+/x', ['a/x'], ['$SYS/x']],
    ['$SYS/#', ['$SYS', '$SYS/x'], ['SYS/x', 'a']],
  ];
  for (const [filter, matching, other] of cases) {
    const rules = acl(`topic read ${filter}`);
    for (const topic of matching) assert.equal(rights(rules, null, topic), 'read', `${filter} ${topic}`);
    for (const topic of other) assert.equal(rights(rules, null, topic), '', `${filter} ${topic}`);
  }
});

test('a pattern stands for the names of the client, and never for more', () => {
  const rules = acl('pattern read dev/%c/#', 'pattern write user/%u', 'pattern x-%c-y', 'pattern %c/own');
  assert.equal(rights(rules, 'u', 'dev/c/x'), 'read');
  assert.equal(rights(rules, 'u', 'dev/other/x'), '');
  assert.equal(rights(rules, 'u', 'user/u'), 'write');
  assert.equal(rights(rules, null, 'user/%u'), '');
  assert.equal(rights(rules, null, 'user/'), '');
  assert.equal(rights(rules, null, 'dev/c/x'), 'read');
  assert.equal(rights(rules, null, 'x-c-y'), 'read+write');
  assert.equal(rights(rules, null, 'dev/a/b/x', 'a/b'), 'read');
  // Names that would be wildcards, substitutes, or the server's topics.
  for (const clientId of ['+', '#', 'a#']) assert.equal(rights(rules, null, 'dev/c/x', clientId), '');
  assert.equal(rights(rules, '+', 'user/u'), '');
  assert.equal(rights(rules, 'u', 'dev/$&/x', '$&'), 'read');
  assert.equal(rights(rules, 'u', 'dev/%u/x', '%u'), 'read');
  assert.equal(rights(rules, 'u', '$SYS/own', '$SYS'), '');
});

test('a wildcard in a name does not touch what its own section grants', () => {
  const rules = acl('user we#ird', 'topic read a', 'pattern read %u');
  assert.equal(rights(rules, 'we#ird', 'a'), 'read');
  assert.equal(rights(rules, 'we#ird', 'we#ird'), '');
});

test('the line that decides is told', () => {
  const rules = acl('user u', 'topic a/#', '  topic   deny   a/b  ', 'pattern read %c');
  const decide = (topic: string) => rules.decide({ user: 'u', clientId: 'c' }, READ, topic);
  assert.deepEqual([decide('a/x').rule?.line, decide('a/x').rule?.text], [2, 'topic readwrite a/#']);
  assert.deepEqual([decide('a/b').rule?.line, decide('a/b').allowed], [3, false]);
  assert.equal(decide('c').rule?.line, 4);
  assert.deepEqual(decide('z'), { allowed: false, rule: null, reason: 'no line grants it' });
});

test('how two filters relate is what the topics say that they match', () => {
  const levels = ['a', 'b', '$x'];
  const topics: string[][] = [];
  for (const first of levels)
    for (const second of [undefined, ...levels])
      for (const third of second === undefined ? [undefined] : [undefined, ...levels])
        topics.push([first, second, third].filter((level) => level !== undefined));
  const filters: string[][] = [['#'], ...topics.map((topic) => [...topic, '#'])];
  for (const topic of topics)
    for (let wild = 0; wild < 2 ** topic.length; wild++)
      filters.push(topic.map((level, i) => ((wild >> i) & 1 ? '+' : level)));
  let related = 0;
  const matched = (filter: string[]) => topics.filter((topic) => matches(filter, topic));
  for (const one of filters) {
    for (const other of filters) {
      const [of, inner] = [matched(one), matched(other)];
      const name = `${one.join('/')} and ${other.join('/')}`;
      const common = inner.filter((topic) => of.includes(topic)).length;
      assert.equal(overlap(one, other), common > 0, name);
      if (covers(one, other)) assert.equal(common, inner.length, name);
      related += Number(covers(one, other));
    }
  }
  assert.ok(related > filters.length);
  for (const filter of filters) assert.ok(covers(['#'], filter) === !filter[0]?.startsWith('$'), filter.join('/'));
});

test('a filter is denied only where nothing that it matches may be read', () => {
  const seed = 20_261;
  const random = new Random(seed);
  const filters = ['#', 'a/#', 'a', 'a/b', 'a/+', '+/b', 'b/#', '+', 'b/%c', '+/+'];
  const topics = ['a', 'b', 'c', 'a/b', 'a/c', 'b/b', 'b/c', 'c/b', 'a/b/c', 'b/c/c'];
  let refused = 0;
  for (let round = 0; round < 2_000; round++) {
    const lines = Array.from({ length: random.int(1, 5) }, (_, i) => {
      const word = i > 2 ? 'pattern' : 'topic';
      return `${word} ${random.pick(['read', 'write', 'deny', 'readwrite'])} ${random.pick(filters)}`;
    });
    const rules = acl(...lines);
    for (const filter of filters.filter((filter) => !filter.includes('%'))) {
      const principal = { user: null, clientId: 'c' };
      if (rules.decideFilter(principal, filter).allowed) continue;
      refused++;
      for (const topic of topics.filter((topic) => matches(filter.split('/'), topic.split('/'))))
        assert.ok(!rules.allows(principal, READ, topic), `seed ${seed}: ${filter} and ${topic}: ${lines.join('; ')}`);
    }
  }
  assert.ok(refused > 1_000);
  const denying = acl('topic #', 'topic deny test/nosubscribe');
  const decide = (filter: string) => denying.decideFilter({ user: null, clientId: 'c' }, filter);
  assert.deepEqual([decide('test/nosubscribe').allowed, decide('test/nosubscribe').rule?.line], [false, 2]);
  assert.deepEqual([decide('test/+').allowed, decide('test/+').rule?.line], [true, 1]);
  assert.equal(decide('$SYS/#').reason, 'no line grants it');
});

test('every bad line is told with its number, and nothing is opened by it', () => {
  const lines = [
    'topic',
    'topic rw a',
    'topic read a#',
    'topic read a/#/b',
    'user',
    'user  ',
    'topics read a',
    'topic\tread a',
    ' # x',
    'pattern',
    'topic constructor a',
  ];
  assert.throws(
    () => Acl.parse(lines.join('\n'), 'F'),
    (error: Error & { code: string }) => {
      assert.equal(error.code, 'config.invalid');
      assert.deepEqual(error.message.split('\n').slice(1), [
        'F:1: topic needs a topic',
        'F:2: expected read, write, readwrite or deny before a topic with a blank in it, found "rw"',
        'F:3: "a#" is no topic filter',
        'F:4: "a/#/b" is no topic filter',
        'F:5: user needs a name',
        'F:6: user needs a name',
        'F:7: expected topic, pattern or user at the beginning of the line, followed by a blank',
        'F:8: expected topic, pattern or user at the beginning of the line, followed by a blank',
        'F:9: expected topic, pattern or user at the beginning of the line, followed by a blank',
        'F:10: pattern needs a topic',
        'F:11: expected read, write, readwrite or deny before a topic with a blank in it, found "constructor"',
      ]);
      return true;
    },
  );
});

test('a file with line ends of Windows means the same', () => {
  const rules = Acl.parse('user alice smith\r\ntopic read a\r\n', 'acl');
  assert.equal(rights(rules, 'alice smith', 'a'), 'read');
});
