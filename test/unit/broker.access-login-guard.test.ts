import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LoginGuard } from '../../src/broker/login-guard.js';
import type { Clock } from '../../src/lib/clock.js';
import { until } from '../helpers/wait.js';

const here = () => false;

/** Time stands still unless a test moves it, and waits are only written down. */
function rig() {
  const time = { now: 1000 };
  const waits: number[] = [];
  const clock = { now: () => 0, mono: () => time.now } as unknown as Clock;
  const guard = new LoginGuard(clock, async (ms) => void waits.push(Math.max(0, ms)));
  return { time, waits, guard };
}

test('a guesser waits longer and longer, other addresses do not', async () => {
  const { waits, guard } = rig();
  for (let i = 0; i < 10; i++) assert.equal(await guard.run('a', here, async () => false), false);
  assert.deepEqual(waits.splice(0), [0, 0, 0, 0, 100, 200, 400, 800, 1600, 2000]);
  assert.equal(await guard.run('b', here, async () => true), true);
  assert.deepEqual(waits, [0]);
});

test('a right password does not wipe out the failures before it, time does', async () => {
  const { time, waits, guard } = rig();
  for (let i = 0; i < 5; i++) await guard.run('a', here, async () => false);
  assert.equal(await guard.run('a', here, async () => true), true);
  await guard.run('a', here, async () => false);
  assert.deepEqual(waits.splice(0), [0, 0, 0, 0, 100, 200, 200]);
  time.now += 600_001;
  for (let i = 0; i < 4; i++) await guard.run('a', here, async () => false);
  assert.deepEqual(waits, [0, 0, 0, 0]);
});

test('one address is checked one by one, and no more than two at once in all', async () => {
  const { guard } = rig();
  const running = new Map<string, number>();
  const releases: (() => void)[] = [];
  let most = 0;
  const check = (address: string) => async () => {
    running.set(address, (running.get(address) ?? 0) + 1);
    const all = [...running.values()];
    assert.ok(all.every((count) => count <= 1));
    most = Math.max(
      most,
      all.reduce((sum, count) => sum + count, 0),
    );
    await new Promise<void>((resolve) => releases.push(resolve));
    running.set(address, 0);
    return true;
  };
  const logins = ['a', 'a', 'a', 'b', 'b', 'c'].map((address) => guard.run(address, here, check(address)));
  let settled = false;
  const all = Promise.all(logins).then(() => {
    settled = true;
  });
  await until('all to be checked', () => {
    releases.shift()?.();
    return settled;
  });
  await all;
  assert.equal(most, 2);
});

test('a client that has gone is not checked', async () => {
  const { guard } = rig();
  assert.equal(
    await guard.run(
      'a',
      () => true,
      () => assert.fail('checked'),
    ),
    false,
  );
});

test('a check that throws holds up nobody', async () => {
  const { guard } = rig();
  for (let i = 0; i < 3; i++)
    await assert.rejects(
      guard.run('a', here, async () => Promise.reject(new Error('no'))),
      /no/,
    );
  assert.equal(await guard.run('a', here, async () => true), true);
});

test('more than can wait are told that the server is busy', async () => {
  const { guard } = rig();
  let release = (): void => {};
  const first = guard.run('a', here, () => new Promise((resolve) => (release = () => resolve(true))));
  const waiting = Array.from({ length: 999 }, () => guard.run('a', here, async () => true));
  await assert.rejects(
    guard.run('a', here, async () => true),
    /too many logins/,
  );
  assert.equal(await guard.run('b', here, async () => true), true);
  release();
  assert.equal((await Promise.all([first, ...waiting])).every(Boolean), true);
});
