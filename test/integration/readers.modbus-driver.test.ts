import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import type { ModbusDeviceOptions } from '../../src/readers/modbus/options.js';
import { until } from '../helpers/wait.js';
import { answerTo, type Behaviour, exceptionTo, honest } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const oven: ModbusDeviceOptions = { ...press, asset: 'oven', unit: 7 };

test('a normal run: every table, right values, the time of the answer, one connection, no warning', async (t) => {
  const tags = [
    { name: 'holding', at: 'hr:107', type: 'i16' },
    { name: 'pair', at: 'hr:108', type: 'u32', order: 'CDAB' },
    { name: 'input', at: 'ir:12', type: 'u16', scale: 0.1 },
    { name: 'coil', at: 'co:3', type: 'bool' },
    { name: 'discrete', at: 'di:4', type: 'bool' },
    { name: 'bit', at: 'hr:300.3', type: 'bool' },
  ] as const;
  const before = Date.now();
  const rig = await Rig.start(t, { devices: [{ ...press, groups: [{ everyMs: 20, tags }] }] });
  for (const { name } of tags) await rig.more(name, 2);
  const value = (tag: string) => rig.samplesOf(tag)[0]?.value;
  assert.deepEqual(
    tags.map(({ name }) => value(name)),
    [107, 109 * 0x10000 + 108, 1.2, true, false, ((300 >>> 3) & 1) === 1],
  );
  for (const { ts, samples, gap } of rig.batches) {
    assert.ok(ts >= before && ts <= Date.now());
    assert.ok(samples.every(({ quality }) => quality === GOOD));
    assert.equal(gap, undefined);
  }
  await until('online', () => rig.status().state === 'online');
  assert.equal(rig.device.connections, 1);
  assert.deepEqual(rig.warnings, []);
  assert.ok((rig.status().rttMs?.p50 ?? 0) > 0);
});

test('a silent device: one bad sample per tag, silence, then the gap before the first good values', async (t) => {
  const rig = await Rig.start(t);
  await rig.more('r10');
  const lastGood = rig.batches.at(-1);
  rig.device.behave = () => {};
  await until('offline', () => rig.status().state === 'offline');
  const missedBefore = rig.status().missedCycles;
  await until('cycles missed', () => rig.status().missedCycles >= missedBefore + 5);
  const bad = rig.batches.filter(({ samples }) => samples.some(({ quality }) => quality !== GOOD));
  assert.deepEqual(
    bad.flatMap(({ samples }) => samples),
    ['r10', 'r11', 'r12'].map((tag) => ({ tag, type: 'i', value: null, quality: 24 })),
  );
  assert.equal(rig.batches.at(-1), bad[0], 'nothing after the bad samples');
  assert.equal(rig.status().cause, 'device.timeout');

  rig.device.behave = honest;
  await rig.more('r10');
  const first = rig.batches[rig.batches.indexOf(bad[0]!) + 1];
  assert.ok(first?.gap && lastGood && bad[0]);
  assert.ok(first.samples.every(({ quality }) => quality === GOOD));
  assert.ok(first.gap.from >= lastGood.ts && first.gap.from <= bad[0].ts);
  assert.equal(first.gap.to, first.ts);
  assert.ok(first.gap.missed >= 5 * 3 && first.gap.missed % 3 === 0, `${first.gap.missed} readings of 3 tags`);
  assert.equal(rig.batches.filter(({ gap }) => gap).length, 1);
  await until('online', () => rig.status().state === 'online');
  assert.deepEqual(
    rig.statuses
      .map(({ state }) => state)
      .filter((state, i, all) => state !== all[i - 1])
      .slice(1, 3),
    ['online', 'offline'],
  );
});

test('a device that is off at the start is bad as not connected, and its values come when it is switched on', async (t) => {
  const hourly = { ...press, groups: [{ ...press.groups[0]!, everyMs: 3_600_000 }] };
  const rig = await Rig.start(t, { devices: [hourly], timeoutMs: 200 }, ({ socket }) => socket.resetAndDestroy());
  await rig.device.powerOff();
  await until('bad', () => rig.samplesOf('r12').length === 1);
  assert.equal(rig.samplesOf('r12')[0]?.quality, 8);
  rig.device.behave = honest;
  await rig.device.powerOn();
  await until('good within its hour', () => rig.samplesOf('r12').length === 2);
  assert.deepEqual(rig.samplesOf('r12')[1], { tag: 'r12', type: 'i', value: 12, quality: GOOD });
  assert.equal(rig.batches.at(-1)?.gap?.missed, 0, 'the cycle was late, not missed');
});

test('data resumes after each of twenty restarts, over one connection at a time', async (t) => {
  const rig = await Rig.start(t, { timeoutMs: 1000 });
  for (let i = 0; i < 20; i++) {
    await rig.more('r11', 2);
    await rig.device.powerOff(i % 2 ? 'rst' : 'fin');
    await until('the loss seen', () => rig.driver.status().link.state !== 'open');
    await rig.device.powerOn();
  }
  await rig.more('r11', 2);
  assert.equal(rig.device.socketsMost, 1);
  assert.ok(rig.device.connections > 20);
  for (const { tag, value, quality } of rig.batches.flatMap(({ samples }) => samples))
    if (quality === GOOD) assert.equal(value, Number(tag.slice(1)));
});

test('a refused register costs only its own tag', async (t) => {
  let hole = true;
  const rig = await Rig.start(t, {}, (question) => {
    const { address, quantity, socket } = question;
    const touches = hole && address <= 11 && address + quantity > 11;
    socket.write(touches ? exceptionTo(question, 2) : answerTo(question));
  });
  await rig.more('r12', 5);
  assert.deepEqual(rig.samplesOf('r11'), [{ tag: 'r11', type: 'i', value: null, quality: 4 }]);
  assert.ok(rig.samplesOf('r10').every(({ value }) => value === 10));
  await until('degraded', () => rig.status().state === 'degraded');
  assert.equal(rig.status().cause, 'exception-2');
  hole = false;
  await rig.more('r11', 2);
  assert.equal(rig.samplesOf('r11').at(-1)?.value, 11);
  await until('online', () => rig.status().state === 'online');
  assert.equal(
    rig.batches.some(({ gap }) => gap),
    false,
  );
});

test('a block that is never answered costs only its own tags', async (t) => {
  const tags = [10, 500, 900].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const }));
  const rig = await Rig.start(t, { devices: [{ ...press, groups: [{ everyMs: 20, tags }] }] }, (question, device) => {
    if (question.address !== 500) honest(question, device);
  });
  await rig.more('r900', 5);
  assert.deepEqual(rig.samplesOf('r500'), [{ tag: 'r500', type: 'i', value: null, quality: 24 }]);
  assert.ok(rig.samplesOf('r10').every(({ value }) => value === 10));
  assert.equal(rig.status().state, 'degraded');
  assert.equal(rig.device.connections, 1);
  rig.device.behave = honest;
  await rig.more('r500', 2);
  assert.equal(rig.samplesOf('r500').at(-1)?.value, 500);
  await until('online', () => rig.status().state === 'online');
});

test('a block that is never answered is tried less often, not in every cycle', async (t) => {
  const tags = [10, 500].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const }));
  const devices = [{ ...press, groups: [{ everyMs: 20, tags }] }];
  const rig = await Rig.start(t, { devices, backoff: { minMs: 60_000, maxMs: 60_000 } }, (question, device) => {
    if (question.address !== 500) honest(question, device);
  });
  await until('bad', () => rig.samplesOf('r500').length === 1);
  await rig.more('r10', 10);
  assert.equal(rig.device.questions.filter(({ address }) => address === 500).length, 2, 'the first try and its retry');
});

const absences: readonly (readonly [string, Behaviour])[] = [
  ['a unit that is silent', () => {}],
  ['a unit that its gateway cannot reach', (question) => void question.socket.write(exceptionTo(question, 11))],
];
for (const [how, behave] of absences)
  test(`${how} costs only itself; the connection stays`, async (t) => {
    const rig = await Rig.start(t, { devices: [press, oven] }, (question, device) => {
      if (question.unit === 7) behave(question, device);
      else honest(question, device);
    });
    await until('the oven is offline', () => rig.status('oven').state === 'offline');
    await rig.more('r10', 20);
    const neighbours = rig.batches.filter(({ device }) => device === 'press').flatMap(({ samples }) => samples);
    assert.ok(neighbours.every(({ quality }) => quality === GOOD));
    const ovens = rig.batches.filter(({ device }) => device === 'oven').flatMap(({ samples }) => samples);
    assert.deepEqual(
      ovens.map(({ quality }) => quality),
      [24, 24, 24],
    );
    assert.equal(rig.device.connections, 1);
    rig.device.behave = honest;
    await until('the oven is back', () => rig.status('oven').state === 'online');
    assert.equal(rig.device.connections, 1);
  });

test('a unit that is silent while nobody asks the others says nothing about the connection', async (t) => {
  const hourly = { ...press, groups: [{ ...press.groups[0]!, everyMs: 3_600_000 }] };
  const rig = await Rig.start(t, { devices: [hourly, oven] }, (question, device) => {
    if (question.unit === 1) honest(question, device);
  });
  await until('silent ten times', () => rig.status('oven').timeouts >= 10);
  assert.equal(rig.device.connections, 1);
});

test('when every unit is silent again and again, it is the connection, and a new one is made', async (t) => {
  const dead = new Set<unknown>();
  const rig = await Rig.start(t, { devices: [press, oven] }, (question, device) => {
    if (!dead.has(question.socket)) honest(question, device);
  });
  await rig.more('r10');
  for (const socket of rig.device.sockets) dead.add(socket);
  await until('a new connection', () => rig.device.connections === 2);
  await rig.more('r10');
  await until('the old one gone', () => rig.device.sockets.size === 1);
});

test('a busy device is asked again before its tags are called bad', async (t) => {
  const rig = await Rig.start(t, {}, (question) => {
    question.socket.write(question.n % 2 ? exceptionTo(question, 6) : answerTo(question));
  });
  await rig.more('r10', 3);
  assert.ok(rig.samplesOf('r10').every(({ quality }) => quality === GOOD));
  assert.ok(rig.status().exceptions >= 3);
});

test('a spool that cannot take more stops the polling, and the skipped cycles are counted', async (t) => {
  const rig = await Rig.start(t);
  await rig.more('r10');
  rig.hold();
  await rig.more('r10', 1);
  const asked = rig.device.questions.length;
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(rig.device.questions.length, asked, 'nothing is read that could not be kept');
  rig.release();
  await rig.more('r10');
  assert.ok(rig.status().missedCycles >= 3);
  assert.equal(rig.status().state, 'online');
});

test('a bus slower than its load: one question at a time, missed cycles counted, no backlog', async (t) => {
  let open = 0;
  let openMost = 0;
  const groups = [1, 2, 3].map((g) => ({
    everyMs: 10,
    tags: [{ name: `r${g}`, at: `hr:${g}`, type: 'u16' as const }],
  }));
  const rig = await Rig.start(t, { timeoutMs: 5000, devices: [{ ...press, groups }] }, (question) => {
    openMost = Math.max(openMost, ++open);
    setTimeout(() => {
      open--;
      question.socket.write(answerTo(question));
    }, 15);
  });
  await rig.more('r3', 8);
  assert.equal(openMost, 1);
  assert.ok(rig.status().missedCycles > 8);
  assert.ok(rig.samplesOf('r3').length <= rig.device.questions.length / 2, 'the groups take turns');
});

test('the line is silent for the configured time after each answer', async (t) => {
  const minGapMs = 15;
  let answeredAt = Number.NEGATIVE_INFINITY;
  const gaps: number[] = [];
  const rig = await Rig.start(t, { minGapMs, devices: [press, oven] }, (question) => {
    gaps.push(performance.now() - answeredAt);
    question.socket.write(answerTo(question));
    answeredAt = performance.now();
  });
  await rig.more('r10', 10);
  assert.ok(Math.min(...gaps) >= minGapMs, `${Math.min(...gaps)} ms`);
});

test('a line that is too slow for its load says so, in figures', async (t) => {
  const serial = {
    kind: 'serial',
    framing: 'rtu',
    path: '/nowhere',
    parity: 'none',
    dataBits: 8,
    stopBits: 1,
  } as const;
  const groups = [
    { everyMs: 100, tags: [0, 100, 200].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const })) },
  ];
  const slow = await Rig.start(t, { endpoint: { ...serial, baudRate: 9600 }, devices: [{ ...press, groups }] });
  assert.equal(slow.warnings[0], 'The line is asked for more than it can give, and cycles will be missed');
  const idle = groups.map((group) => ({ ...group, everyMs: 10_000 }));
  const fast = await Rig.start(t, { endpoint: { ...serial, baudRate: 9600 }, devices: [{ ...press, groups: idle }] });
  assert.ok(!fast.warnings.includes('The line is asked for more than it can give, and cycles will be missed'));
});
