/**
 * What users of other readers have reported in public, each as a device that does just that. The references say where it was
 * reported; what is asserted is what ought to happen. A value that shifts by one on a line without transaction ids (pymodbus 538,
 * home-assistant 138077) has tests of its own, `readers.modbus-late-answers`.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { GOOD } from '../../src/model/reading.js';
import { parseAddress } from '../../src/readers/modbus/address.js';
import { toRaw } from '../../src/readers/modbus/conversion.js';
import { encode } from '../../src/readers/modbus/encode.js';
import type { ModbusTagOptions } from '../../src/readers/modbus/options.js';
import { compileTag } from '../../src/readers/modbus/tag.js';
import { PollSchedule } from '../../src/readers/poll-schedule.js';
import { configFile } from '../helpers/config-file.js';
import { until } from '../helpers/wait.js';
import { answerTo, exceptionTo, honest } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

type Part = Omit<ModbusTagOptions, 'name' | 'at'>;

const DEVICE = { order: 'ABCD', addressing: 'pdu0' } as const;
const tagOf = (part: Part) => compileTag({ name: 't', at: 'hr:0', ...part }, DEVICE);

/** What a tag makes of these bytes as they come over the wire. */
function meaning(hex: string, part: Part): unknown {
  const tag = tagOf(part);
  const { value, quality } = tag.sample(Buffer.from(hex, 'hex'), tag);
  return quality === GOOD ? value : null;
}

/** What goes over the wire for a value. */
function written(value: unknown, part: Part): string {
  const { format, conversion } = tagOf(part);
  if (!format) throw new Error('a register');
  return encode(format, toRaw(format, conversion, value)).toString('hex');
}

const units = (...ids: number[]) => ids.map((unit) => ({ ...press, asset: `unit-${unit}`, unit }));
const allTrue = (rig: Rig) => {
  for (const { tag, value, quality } of rig.batches.flatMap(({ samples }) => samples))
    if (quality === GOOD) assert.equal(value, Number(tag.slice(1)), tag);
};

const REPORTS: Record<string, (t: TestContext) => void | Promise<void>> = {
  'a float in two registers is huge: words swapped (telegraf 7518, 8855)': () => {
    assert.equal(meaning('00004050', { type: 'f32', order: 'CDAB' }), 3.25);
    assert.notEqual(meaning('00004050', { type: 'f32' }), 3.25);
  },
  'a negative temperature is 6554 (telegraf 7317, modbus2mqtt 39, Tasmota 18522)': () => {
    assert.equal(meaning('fff3', { type: 'i16', scale: 0.1 }), -1.3);
    assert.equal(meaning('ffec', { type: 'i16' }), -20);
    assert.equal(meaning('ffec', { type: 'u16' }), 65516);
  },
  '229.01 is 2.4e-41: a little-endian default (thingsboard-gateway 614)': () => {
    assert.equal(meaning('4365028f', { type: 'f32' }), Math.fround(229.01));
  },
  'names of byte orders contradict the wire (libmodbus 358, 529, 611)': () => {
    assert.equal(meaning('077a429b', { type: 'f32', order: 'CDAB' }), Math.fround(77.514603));
  },
  'after one slow answer all are one behind (goburrow 64, grid-x 26, NModbus 88, tokio-modbus 324)': async (t) => {
    const rig = await Rig.start(t, { timeoutMs: 40, retries: 0, devices: separate(10, 11, 12) }, (question) => {
      if (question.n === 4) setTimeout(() => question.socket.write(answerTo(question)), 60);
      else honest(question, rig.device);
    });
    await until('late', () => rig.status().lateAnswers > 0);
    await rig.more('r11', 3);
    allTrue(rig);
  },
  'another sensor’s value after a reconnect (home-assistant 55076)': async (t) => {
    const rig = await Rig.start(t, {}, (question) => {
      const answer = answerTo(question);
      if (question.n % 5 !== 0) question.socket.write(answer);
      else question.socket.write(answer.subarray(0, 11), () => question.socket.resetAndDestroy());
    });
    await until('five reconnects', () => rig.device.connections > 5);
    await rig.more('r12');
    allTrue(rig);
  },
  'one missing register fails the whole block (ioBroker 581, stiebel_eltron 599)': async (t) => {
    const rig = await Rig.start(t, { devices: separate(45, 49, 55, 60) }, (question) => {
      const touches = question.address <= 59 && question.address + question.quantity > 50;
      question.socket.write(touches ? exceptionTo(question, 2) : answerTo(question));
    });
    await rig.more('r45');
    await rig.more('r60');
    assert.deepEqual(rig.samplesOf('r55'), [{ tag: 'r55', type: 'i', value: null, quality: 4 }]);
    assert.ok(rig.samplesOf('r49').every(({ value }) => value === 49));
  },
  'one dead slave starves the bus, or takes the connection (telegraf 11782, pymodbus 2346)': async (t) => {
    const rig = await Rig.start(t, { devices: units(1, 2, 3), timeoutMs: 30 }, (question) => {
      if (question.unit !== 2) honest(question, rig.device);
    });
    await until('down', () => rig.status('unit-2').state === 'offline');
    const read = (unit: number) => rig.batches.filter(({ device }) => device === `unit-${unit}`).length;
    const before = [read(1), read(3)];
    await until('the others go on', () => read(1) > (before[0] as number) + 20 && read(3) > (before[1] as number) + 20);
    assert.equal(rig.device.connections, 1);
  },
  'a device that serves one connection is blocked by our second (openhab1 3818, NModbus4 152)': async (t) => {
    const rig = await Rig.start(t, { devices: units(1, 2, 3, 4) }, (question, device) => {
      if (device.sockets.size > 1) question.socket.resetAndDestroy();
      else honest(question, device);
    });
    await until('all read', () => [1, 2, 3, 4].every((unit) => rig.status(`unit-${unit}`).state === 'online'));
    assert.equal(rig.device.socketsMost, 1);
  },
  'a device needs rest after its answer (thingsboard-gateway 1664, ioBroker 39, eModbus 223)': async (t) => {
    let restedAt = 0;
    const rig = await Rig.start(t, { minGapMs: 20, devices: separate(10, 500) }, (question) => {
      if (performance.now() < restedAt) return;
      question.socket.write(answerTo(question));
      restedAt = performance.now() + 19;
    });
    await rig.more('r500', 5);
    assert.equal(rig.status().timeouts, 0);
  },
  'reads pile up at a device of one read in a while (FoxESS 120)': async (t) => {
    const everyMs = 20;
    const devices = [
      { ...press, groups: separate(10, 500, 1000)[0]?.groups.map((group) => ({ ...group, everyMs })) ?? [] },
    ];
    let waiting = 0;
    let most = 0;
    const rig = await Rig.start(t, { devices, timeoutMs: 5000 }, (question) => {
      most = Math.max(most, ++waiting);
      setTimeout(() => {
        waiting--;
        question.socket.write(answerTo(question));
      }, 25);
    });
    await rig.more('r1000', 3);
    assert.equal(most, 1);
    assert.ok(rig.status().missedCycles > 0);
  },
  'the interval becomes the interval and the time of the read (ModbusScope 17, home-assistant 146246)': () => {
    const schedule = new PollSchedule({ name: 'g', everyMs: 50, startMono: 0 });
    let now = 0;
    const due = Array.from({ length: 60 }, () => {
      const { dueMono } = schedule.next(now);
      now = dueMono + 13;
      return dueMono;
    });
    for (const [i, mono] of due.entries()) assert.equal(mono, (due[0] as number) + i * 50);
  },
  'unit 0 is refused, or never answers (node-red 188, pymodbus 2571, libmodbus 376)': async (t) => {
    const rig = await Rig.start(t, { devices: [{ ...press, unit: 0 }] }, (question) => {
      if (question.unit === 0) honest(question, rig.device);
    });
    await rig.more('r10');
    allTrue(rig);
  },
  'a sentinel is shown as a value (home-assistant 69656, 139628, 93297)': () => {
    for (const hex of ['7fc00000', 'ff800000', '7f800000']) assert.equal(meaning(hex, { type: 'f32' }), null);
    assert.equal(meaning('8000', { type: 'i16', invalid: [0x8000] }), null);
    assert.equal(meaning('80000000', { type: 'i32', invalid: 'sunspec' }), null);
    assert.equal(meaning('ffffffff', { type: 'u32', invalid: 'sunspec' }), null);
    assert.equal(meaning('fffffffe', { type: 'u32', invalid: 'sunspec' }), 0xfffffffe);
  },
  'values are wrong behind a gap in a batch (esphome 6636)': async (t) => {
    const rig = await Rig.start(t, { devices: separate(10, 13, 14, 22, 40) });
    for (const tag of ['r10', 'r13', 'r14', 'r22', 'r40']) await rig.more(tag);
    allTrue(rig);
  },
  'an address is one off (OpenEMS 86, NModbus 108, mbpoll 51, OpenModScan 2)': () => {
    assert.equal(parseAddress('40108', 'plc1').address, 107);
    assert.equal(parseAddress('400108', 'plc1').address, 107);
    assert.equal(parseAddress('%MW107', 'pdu0').address, 107);
    assert.throws(() => parseAddress('40108', 'pdu0'), /where it counts from/);
  },
  'polling never resumes after a restart of the device (node-red 6, 273, 458, plc4x 1068)': async (t) => {
    const rig = await Rig.start(t);
    for (const how of ['fin', 'rst', 'fin', 'rst'] as const) {
      await rig.more('r10', 1);
      await rig.device.powerOff(how);
      await until('seen', () => rig.driver.status().link.state !== 'open');
      await rig.device.powerOn();
    }
    rig.device.behave = () => {};
    await until('a silence seen', () => rig.status().state === 'offline');
    rig.device.behave = honest;
    await until('online', () => rig.status().state === 'online');
  },
  'a reset ends the process (node-red 532, 225, jsmodbus 246)': async (t) => {
    const rig = await Rig.start(t, { backoff: { minMs: 1, maxMs: 2 } }, (question, device) => {
      if (question.n % 3 === 0) question.socket.resetAndDestroy();
      else honest(question, device);
    });
    await until('a hundred resets', () => rig.device.connections > 100, 30_000);
    allTrue(rig);
  },
  'a gateway’s exception 10 or 11 counts as a broken link (modbus_exporter 69)': async (t) => {
    const rig = await Rig.start(t, { devices: units(1, 7) }, (question) => {
      question.socket.write(question.unit === 7 ? exceptionTo(question, 11) : answerTo(question));
    });
    await until('that unit down', () => rig.status('unit-7').cause === 'exception-11');
    await rig.more('r10', 5);
    assert.equal(rig.status('unit-1').state, 'online');
    assert.equal(rig.device.connections, 1);
  },
  'the last value for ever when the device is off (thingsboard-gateway 1243, esphome 2920)': async (t) => {
    const rig = await Rig.start(t);
    await rig.more('r10');
    await rig.device.powerOff();
    await until('bad', () => rig.samplesOf('r10').at(-1)?.value === null);
    assert.equal(rig.status().state, 'offline');
  },
  'negative or swapped values are written as something else (modbus-serial 568, node-red 340)': () => {
    assert.equal(written(-10, { type: 'i16' }), 'fff6');
    assert.equal(written(-123_456, { type: 'i32', order: 'CDAB' }), '1dc0fffe');
    assert.throws(() => written(-1, { type: 'u16' }), /from 0 to 65535/);
  },
  'a heartbeat is missing when nothing changes (modbus4mqtt 61)': (t) => {
    const config = `gateway: { id: g }
upstream: { url: "mqtt://h" }
readers: [{ type: modbus, url: "tcp://h", devices: [{ asset: a, groups: [{ every: 1s, report: change, tags: [{ name: t, at: "hr:1", type: u16 }] }] }] }]
`;
    const [reader] = loadGatewayConfig(configFile(t, config)).readers;
    if (reader?.type !== 'modbus') throw new Error('a Modbus reader');
    assert.equal(reader.devices[0]?.groups[0]?.heartbeat, 60_000);
  },
};

/** Registers of one device, read every 20 ms. */
function separate(...registers: number[]) {
  const tags = registers.map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const }));
  return [{ ...press, groups: [{ everyMs: 20, tags }] }];
}

for (const [report, check] of Object.entries(REPORTS)) test(report, check);
