import assert from 'node:assert/strict';
import { createHash, pbkdf2Sync, randomBytes } from 'node:crypto';
import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { changePassword, readPasswords } from '../../src/broker/password-file.js';
import { decoyOf, newArgon2Hash, newHash, parseHash, verify } from '../../src/broker/password-hash.js';
import { tempDir } from '../helpers/tmp.js';

const SALT = Buffer.alloc(12, 7);
const b64 = (bytes: Buffer) => bytes.toString('base64');
const sha512 = (password: string, salt = SALT) =>
  `$6$${b64(salt)}$${b64(createHash('sha512').update(password).update(salt).digest())}`;
const pbkdf2 = (password: string, iterations: number, salt = SALT, bytes = 64) =>
  `$7$${iterations}$${b64(salt)}$${b64(pbkdf2Sync(password, salt, iterations, bytes, 'sha512'))}`;

async function isRight(hash: string, password: string): Promise<boolean> {
  const parsed = parseHash(hash);
  assert.ok(typeof parsed === 'object', String(parsed));
  return verify(parsed, Buffer.from(password));
}

async function complaints(file: string): Promise<string[]> {
  const error = await readPasswords(file).then(
    () => assert.fail('it was taken'),
    (e) => e,
  );
  assert.equal(error.code, 'config.invalid');
  return error.message
    .split('\n')
    .slice(1)
    .map((line: string) => line.replace(file, 'F'));
}

test('the hashes of every Mosquitto are right for their password and for no other', async () => {
  const password = 'pass:wörd ';
  for (const hash of [
    sha512(password),
    pbkdf2(password, 101),
    pbkdf2(password, 1000, randomBytes(64)),
    await newHash(password, 3),
  ]) {
    assert.equal(await isRight(hash, password), true, hash);
    for (const wrong of ['', 'pass:wörd', 'Pass:wörd ', 'pass:wörd  '])
      assert.equal(await isRight(hash, wrong), false, hash);
  }
});

// The test vectors of the reference implementation, for the password "password".
const ARGON2ID = [
  '$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4',
  '$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc',
  '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
];

test('argon2id entries are right for their password and for no other, those of Mosquitto 2.1 too', async () => {
  for (const hash of ARGON2ID) {
    assert.equal(await isRight(hash, 'password'), true, hash);
    for (const wrong of ['', 'Password', 'password ']) assert.equal(await isRight(hash, wrong), false, hash);
  }
  const own = await newArgon2Hash('pass:wörd ');
  assert.match(own, /^\$argon2id\$v=19\$m=47104,t=1,p=1\$[A-Za-z0-9+/]{86}\$[A-Za-z0-9+/]{86}$/);
  assert.equal(await isRight(own, 'pass:wörd '), true);
  assert.equal(await isRight(own, 'pass:wörd'), false);
});

test('while argon2id is worked out, this thread goes on', async () => {
  let isDone = false;
  const work = isRight(ARGON2ID[2] as string, 'password').finally(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns++) await new Promise(setImmediate);
  assert.equal(await work, true);
  // On this thread it would be a handful.
  assert.ok(turns > 50, `the loop has turned ${turns} times`);
});

test('who does not exist costs as much as the slowest entry, and is never right', async () => {
  const hashes = [sha512('x'), pbkdf2('x', 1000), ARGON2ID[0] as string].map((text) => {
    const hash = parseHash(text);
    return typeof hash === 'object' ? hash : assert.fail(hash);
  });
  assert.equal(decoyOf([]).kind, 'sha512');
  assert.equal(decoyOf(hashes.slice(0, 2)).kind, 'pbkdf2');
  const { salt, hash, ...cost } = decoyOf(hashes);
  assert.deepEqual(cost, { kind: 'argon2id', memoryKiB: 256, passes: 2, lanes: 1 });
  assert.equal(await verify(decoyOf(hashes), Buffer.from('password')), false);
});

test('what is no hash that can be checked is refused, and not shown', () => {
  const cases: Record<string, RegExp> = {
    hunter2: /not hashed.*mosquitto_passwd -U/,
    '$argon2i$v=19$m=47104,t=1,p=1$c2FsdA$aGFzaA': /unknown kind/,
    '$argon2id$m=47104,t=1,p=1$c2FsdA$aGFzaA': /only version 19/,
    '$argon2id$v=16$m=47104,t=1,p=1$c2FsdA$aGFzaA': /only version 19/,
    '$argon2id$v=19$m=47104,t=1$c2FsdA$aGFzaA': /the cost/,
    '$argon2id$v=19$m=47104,t=1e9,p=1$c2FsdA$aGFzaA': /the cost/,
    '$argon2id$v=19$m=47104,t=1,p=0$c2FsdHNhbHQ$aGFzaGhhc2g': /p must be/,
    '$argon2id$v=19$m=15,t=1,p=2$c2FsdHNhbHQ$aGFzaGhhc2g': /at least 8 times p/,
    '$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g': /m must be at most 131072 KiB/,
    '$argon2id$v=19$m=47104,t=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2g': /t must be at least 1/,
    '$argon2id$v=19$m=65536,t=33,p=1$c2FsdHNhbHQ$aGFzaGhhc2g': /more than ten seconds/,
    '$argon2id$v=19$m=256,t=1,p=1$c2FsdHNhbHQ': /incomplete/,
    '$argon2id$v=19$m=256,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g$x': /incomplete/,
    '$argon2id$v=19$m=256,t=1,p=1$c2FsdHNhbHQ=$aGFzaGhhc2g': /not base64 without padding/,
    '$argon2id$v=19$m=256,t=1,p=1$c2FsdA$aGFzaGhhc2g': /the salt has 4 bytes/,
    '$argon2id$v=19$m=256,t=1,p=1$c2FsdHNhbHQ$aGFzaA': /the hash has 4 bytes/,
    '$5$c2FsdA==$aGFzaA==': /unknown kind/,
    '$7$0$c2FsdA==$aGFzaA==': /iterations/,
    '$7$1e3$c2FsdA==$aGFzaA==': /the salt has 4 bytes/,
    '$7$99999999$c2FsdA==$aGFzaA==': /iterations/,
    $7$101: /incomplete/,
    [`${sha512('x')}$more`]: /incomplete/,
    [pbkdf2('x', 101, Buffer.alloc(4))]: /the salt has 4 bytes/,
    [pbkdf2('x', 101, SALT, 32)]: /the hash has 32 bytes/,
    [sha512('x').slice(0, -1)]: /incomplete or not base64/,
    [sha512('x').replace('$6$', '$6$!')]: /incomplete or not base64/,
  };
  for (const [text, complaint] of Object.entries(cases)) {
    const said = parseHash(text);
    assert.match(String(said), complaint, text);
    assert.doesNotMatch(String(said), /hunter2|c2FsdA/);
  }
});

test('every bad line is told with its number, and the file is not used', async (t) => {
  const file = join(tempDir(t), 'passwd');
  const good = pbkdf2('x', 101);
  const lines = [
    '# comment: not a user',
    '',
    `alice:${good}`,
    'bob',
    `alice:${good}`,
    `:${good}`,
    'carol:',
    'dave:hunter2',
    ` #x:${good}`,
  ];
  writeFileSync(file, lines.join('\r\n'));
  assert.deepEqual(await complaints(file), [
    'F:4: expected user:hash, found no colon',
    'F:5: the user is already above',
    'F:6: a user name must not be empty or have blanks around it',
    'F:7: "carol" has no password',
    'F:8: the password is not hashed; set it with holdfast passwd, or hash the file with mosquitto_passwd -U',
    'F:9: a user name must not begin with #: the line would be a comment',
  ]);
});

test('a file that cannot be read is refused as a whole', async (t) => {
  const file = join(tempDir(t), 'passwd');
  assert.deepEqual(await complaints(file), ['F: cannot be read: there is no such file']);
  writeFileSync(file, Buffer.from([0x61, 0xff]));
  assert.deepEqual(await complaints(file), ['F: is not UTF-8; is it a text file?']);
  writeFileSync(file, `alice:${pbkdf2('x', 101)}\0\n`);
  assert.deepEqual(await complaints(file), ['F: contains a NUL character']);
});

test('an empty file knows nobody', async (t) => {
  const file = join(tempDir(t), 'passwd');
  writeFileSync(file, '# nobody\n\n');
  assert.equal((await readPasswords(file)).size, 0);
});

test('a user is added, changed and removed, and every other line stays as it is', async (t) => {
  const dir = tempDir(t);
  const file = join(dir, 'passwd');
  await changePassword(file, 'alice', 'A');
  assert.equal(readFileSync(file, 'utf8'), 'alice:A\n');
  assert.equal(statSync(file).mode & 0o777, 0o600);

  writeFileSync(file, '\n# alice:old\nalice:A:rest\r\n alice :B\nbob:C');
  chmodSync(file, 0o640);
  symlinkSync(file, join(dir, 'link'));
  await changePassword(join(dir, 'link'), 'alice', 'D');
  await changePassword(file, 'carol', 'E');
  assert.equal(readFileSync(file, 'utf8'), '\n# alice:old\nalice:D\n alice :B\nbob:C\ncarol:E\n');
  assert.equal(statSync(file).mode & 0o777, 0o640);

  assert.equal(await changePassword(file, 'bob', null), true);
  assert.equal(await changePassword(file, 'bob', null), false);
  assert.equal(readFileSync(file, 'utf8'), '\n# alice:old\nalice:D\n alice :B\ncarol:E\n');
});

test('a name that would not come back out of the file is not written', async (t) => {
  const file = join(tempDir(t), 'passwd');
  for (const user of ['', ' alice', 'a:b', 'a\nb', '#a'])
    await assert.rejects(changePassword(file, user, 'A'), { code: 'usage.invalid' });
  await assert.rejects(changePassword(file, 'alice', null), { code: 'config.invalid' });
});
