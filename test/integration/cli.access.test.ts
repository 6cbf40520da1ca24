import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { connectAsync } from 'mqtt';
import { configFile } from '../helpers/config-file.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

function holdfast(args: readonly string[], input = ''): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['dist/src/main.js', ...args], {
    encoding: 'utf8',
    input,
  });
  return { status, stdout, stderr };
}

const CONFIG = `gateway: { id: line-1 }
broker:
  listeners: [{ url: "mqtt://127.0.0.1:0" }]
  passwordFile: passwd
  aclFile: acl
upstream: { url: "mqtt://127.0.0.1:1" }
`;

test('passwd creates, changes and deletes a user, and shows no password', (t) => {
  const file = join(tempDir(t), 'passwd');
  const changed = `${file}: alice has a new password; a running gateway takes it at SIGHUP\n`;
  const run = (...args: string[]) => holdfast(['passwd', file, ...args], 'geheim wört\nsecond line\n');
  assert.deepEqual(run('alice', '--stdin'), { status: 0, stdout: changed, stderr: '' });
  const first = readFileSync(file, 'utf8');
  assert.match(first, /^alice:\$7\$100000\$[A-Za-z0-9+/]{16}\$[A-Za-z0-9+/]{86}==\n$/);
  assert.equal(run('alice', '--stdin', '--iterations', '101').status, 0);
  assert.match(readFileSync(file, 'utf8'), /^alice:\$7\$101\$/);
  assert.equal(run('alice', '--stdin', '--hash', 'argon2id').status, 0);
  assert.match(readFileSync(file, 'utf8'), /^alice:\$argon2id\$v=19\$m=47104,t=1,p=1\$/);
  assert.equal(run('alice', '--delete').status, 0);
  assert.equal(readFileSync(file, 'utf8'), '');
  assert.deepEqual(run('alice', '--delete'), { status: 1, stdout: '', stderr: `${file}: there is no user alice\n` });
});

test('passwd refuses what it cannot do and leaves the file alone', (t) => {
  const file = join(tempDir(t), 'passwd');
  writeFileSync(file, 'alice:x\n');
  for (const [args, input] of [
    [['a:b', '--stdin'], 'x\n'],
    [['bob', '--stdin'], '\n'],
    [['bob', '--stdin', '--iterations', '0'], 'x\n'],
    [['bob', '--stdin', '--hash', 'argon2id', '--iterations', '101'], 'x\n'],
    [['bob', '--stdin', '--hash', 'md5'], 'x\n'],
    [['bob'], 'x\n'],
  ] as const) {
    assert.equal(holdfast(['passwd', file, ...args], input).status, 64, args.join(' '));
    assert.equal(readFileSync(file, 'utf8'), 'alice:x\n');
  }
  const nowhere = holdfast(['passwd', join(file, 'x'), 'bob', '--stdin'], 'x\n');
  assert.notEqual(nowhere.status, 0);
});

test('acl test prints the answer and the line that decides', (t) => {
  const file = join(tempDir(t), 'acl');
  writeFileSync(file, 'topic read open\nuser alice\ntopic plant/#\ntopic deny plant/x\npattern write dev/%c\n');
  const run = (...args: string[]) => {
    const { status, stdout } = holdfast(['acl', 'test', '--acl', file, ...args]);
    return [status, stdout.trim().replace(file, 'F')];
  };
  assert.deepEqual(run('plant/a', 'write', '--user', 'alice'), [0, 'allowed: F:3: topic readwrite plant/#']);
  assert.deepEqual(run('plant/x', 'read', '--user', 'alice'), [1, 'denied: F:4: topic deny plant/x']);
  assert.deepEqual(run('dev/c7', 'write', '--client', 'c7'), [0, 'allowed: F:5: pattern write dev/%c']);
  assert.deepEqual(run('open', 'write'), [1, 'denied: no line grants it']);
  assert.deepEqual(run('$SYS/broker/x', 'write'), [
    1,
    'denied: topics that begin with $ are written by the broker alone',
  ]);
  assert.deepEqual(run('plant/#', 'read'), [64, '']);
  assert.deepEqual(run('plant/#', 'subscribe', '--user', 'alice'), [0, 'allowed: F:3: topic readwrite plant/#']);
  assert.deepEqual(run('$share/g/plant/x', 'subscribe', '--user', 'alice'), [1, 'denied: F:4: topic deny plant/x']);
  for (const bad of ['', 'a#', '$share/g']) assert.deepEqual(run(bad, 'subscribe'), [64, ''], bad);
  assert.deepEqual(run('plant/+', 'subscribe'), [1, 'denied: no line grants it']);
  const { stdout } = holdfast(['acl', 'test', '--acl', file, 'open', 'read', '--json']);
  assert.deepEqual(JSON.parse(stdout), { allowed: true, file, line: 1, text: 'topic read open', reason: null });
});

test('check looks into the files that the config names', (t) => {
  const file = configFile(t, CONFIG);
  const [passwords, acl] = [join(dirname(file), 'passwd'), join(dirname(file), 'acl')];
  const run = () => holdfast(['check', file]);
  assert.deepEqual(run(), {
    status: 78,
    stdout: `${passwords}: cannot be read: there is no such file\n${acl}: cannot be read: there is no such file\n${file}: 2 problems\n`,
    stderr: '',
  });
  writeFileSync(passwords, 'alice\n');
  writeFileSync(acl, '\ntopic rw a\n');
  assert.match(
    run().stdout,
    /passwd:1: expected user:hash, found no colon\n.*acl:2: expected read, write, readwrite or deny/,
  );
  const [first] = JSON.parse(holdfast(['check', '--json', file]).stdout).problems;
  assert.deepEqual(first, {
    file: passwords,
    line: 1,
    col: null,
    path: '',
    message: 'expected user:hash, found no colon',
    severity: 'error',
  });
  assert.match(holdfast(['gateway', '--config', file]).stderr, /passwd:1: expected user:hash/);
  assert.equal(holdfast(['gateway', '--config', file]).status, 78);
  assert.equal(existsSync(join(dirname(file), 'data')), false, 'the spool is not touched');
  writeFileSync(passwords, '');
  writeFileSync(acl, '');
  assert.equal(run().status, 0);
});

test('a running gateway takes new users and rules at SIGHUP, and keeps the old ones when they are wrong', async (t) => {
  const file = configFile(t, CONFIG);
  const [passwords, acl] = [join(dirname(file), 'passwd'), join(dirname(file), 'acl')];
  const setPassword = (password: string) =>
    assert.equal(holdfast(['passwd', passwords, 'alice', '--stdin', '--iterations', '10'], `${password}\n`).status, 0);
  setPassword('one');
  writeFileSync(acl, 'user alice\ntopic a\n');
  const gateway = await start(t, file);
  const login = async (password: string): Promise<string> => {
    const options = { username: 'alice', password, reconnectPeriod: 0, protocolVersion: 5 } as const;
    try {
      const client = await connectAsync(gateway.url, options);
      const codes = await Promise.allSettled(['a', 'b'].map((topic) => client.publishAsync(topic, 'x', { qos: 1 })));
      await client.endAsync(true);
      return codes.map(({ status }) => status).join();
    } catch (error) {
      return String((error as { code?: number }).code);
    }
  };
  assert.equal(await login('one'), 'fulfilled,rejected');

  setPassword('two');
  writeFileSync(acl, 'user alice\ntopic b\n');
  gateway.hup();
  await gateway.says('Passwords, access rules and certificates are read anew');
  assert.equal(await login('one'), '135');
  assert.equal(await login('two'), 'rejected,fulfilled');

  setPassword('three');
  writeFileSync(acl, 'user alice\ntopik a\n');
  gateway.hup();
  const line = await gateway.says('Nothing is reloaded, what was in use stays');
  assert.match(line.cause, /acl:2: expected topic, pattern or user/);
  assert.equal(await login('two'), 'rejected,fulfilled');
});

async function start(t: TestContext, file: string) {
  const child = spawn(process.execPath, ['dist/src/main.js', 'gateway', '--config', file, '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(async () => {
    if (child.exitCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  });
  const log: { msg: string; cause: string }[] = [];
  createInterface(child.stderr).on('line', (line) => log.push(JSON.parse(line)));
  const [ready] = (await once(createInterface(child.stdout), 'line')) as [string];
  return {
    url: JSON.parse(ready).mqtt[0] as string,
    hup: () => child.kill('SIGHUP'),
    says: (sentence: string) => until(sentence, () => log.find(({ msg }) => msg === sentence)),
  };
}
