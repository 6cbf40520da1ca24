import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acl, READ, WRITE } from '../../src/broker/acl-file.js';
import { Decisions } from '../../src/broker/decisions.js';

test('what is remembered is what the rules say, by client, action and topic', () => {
  const acl = Acl.parse('user u\ntopic read a/#\ntopic write b\npattern readwrite dev/%c\n', 'acl');
  const decisions = new Decisions(acl);
  const clients = [
    { user: 'u', clientId: 'c1' },
    { user: 'u', clientId: 'c2' },
    { user: null, clientId: 'c1' },
  ];
  for (let round = 0; round < 3; round++)
    for (const topic of ['a/x', 'b', 'dev/c1', 'dev/c2', 'z'])
      for (const client of clients)
        for (const action of [READ, WRITE] as const)
          assert.equal(
            decisions.allows(client, action, topic),
            acl.allows(client, action, topic),
            JSON.stringify([client, action, topic]),
          );
});

test('more topics than are remembered are still answered right', () => {
  const decisions = new Decisions(Acl.parse('topic read t/+\ntopic deny t/7\n', 'acl'));
  const client = { user: null, clientId: 'c' };
  for (let i = 0; i < 250_000; i++) decisions.allows(client, READ, `t/${i}`);
  assert.deepEqual(
    ['t/7', 't/8', 't/249999', 'u'].map((topic) => decisions.allows(client, READ, topic)),
    [false, true, true, false],
  );
});
