import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acl, READ, WRITE } from '../../src/broker/acl-file.js';

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
