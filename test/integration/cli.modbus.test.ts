import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { configFile } from '../helpers/config-file.js';
import { tempDir } from '../helpers/tmp.js';
import { FakeRtu, rtu } from './readers.fake-rtu.js';

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function holdfast(...args: string[]): Promise<Run> {
  const child = spawn(process.execPath, ['dist/src/main.js', 'modbus', ...args]);
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

async function device(t: TestContext): Promise<{ fake: FakeRtu; url: string }> {
  const fake = await FakeRtu.listen(t);
  return { fake, url: fake.endpoint.kind === 'tcp' ? `rtu+tcp://127.0.0.1:${fake.endpoint.port}` : '' };
}

test('read shows the same registers as every type in every order', async (t) => {
  const { fake, url } = await device(t);
  for (const [i, word] of [0x429b, 0x077a, 0, 1].entries()) fake.registers.set(100 + i, word);
  const shown = await holdfast('read', url, '40101', '--unit', '3');
  assert.equal(shown.code, 0, shown.err);
  assert.match(shown.out, /^hr:100 {2}429b 077a 0000 0001$/m);
  assert.match(shown.out, /^f32 +ABCD 77\.5146\d+ +BADC \S+ +CDAB \S+ +DCBA \S+$/m);
  assert.match(shown.out, /^u32 +ABCD 1117456250 +BADC \d+ +CDAB 125452955 +DCBA \d+$/m);
  assert.equal(fake.requests[0]?.toString('hex').slice(0, 12), '030300640004');
  const json = JSON.parse((await holdfast('read', url, 'hr:100', '--count', '4', '--json')).out);
  const u64 = json.readings.find(({ type }: { type: string }) => type === 'u64').values;
  assert.deepEqual(u64[0], { order: 'ABCDEFGH', value: String(0x429b077a00000001n) });
  assert.equal(u64.length, 8);
});

test('read tells a refusal, a silence and a wrong question apart', async (t) => {
  const { fake, url } = await device(t);
  fake.behave = (asked) => (asked[0] === 1 ? [rtu([1, 0x83, 2])] : []);
  assert.deepEqual((await holdfast('read', url, 'hr:1')).code, 69);
  const silent = await holdfast('read', url, 'hr:1', '--unit', '2', '--timeout', '50ms');
  assert.equal(silent.code, 69);
  assert.match(silent.err, /No answer within 50 ms/);
  assert.equal((await holdfast('read', url, 'hr:1', '--count', '126')).code, 64);
  assert.equal((await holdfast('read', url, 'xx:1')).code, 78);
});

test('scan finds the units that are there, however they answer, and who they are', async (t) => {
  const { fake, url } = await device(t);
  fake.behave = (asked) => {
    const [unit, fc] = asked as unknown as [number, number];
    if (unit === 2 && fc === 3) return [rtu([2, 0x83, 2])];
    if (unit === 2 && fc === 17) return [rtu([2, 17, 4, 1, 0xff, 0x50, 0x37])];
    // It always promises more, and always gives the same.
    if (unit === 5 && fc === 43) return [rtu([5, 43, 14, 1, 1, 0xff, 1, 1, 0, 4, 0x41, 0x43, 0x1b, 0x45])];
    return unit === 2 || unit === 5 ? [fake.answer(asked)] : [];
  };
  const found = await holdfast('scan', url, '--units', '1-3,5', '--timeout', '40ms');
  assert.equal(found.out, 'unit 2: exception-2, P7\nunit 5: ok, ACE, ACE\n');
  assert.equal(found.err, '2 of 4 units answered\n');
  assert.equal(found.code, 0);
  assert.ok(
    fake.requests.every((request) => [3, 17, 43].includes(request[1] as number)),
    'nothing is written',
  );
  const none = await holdfast('scan', url, '--units', '3', '--timeout', '40ms');
  assert.equal(none.code, 1);
});

test('plan shows every read and how busy the line will be', async (t) => {
  const tags = Array.from({ length: 200 }, (_, i) => `{ name: t${i}, at: "hr:${i}", type: u16 }`).join(', ');
  const file = configFile(
    t,
    `gateway: { id: g }
upstream: { url: "mqtt://h" }
readers:
  - type: modbus
    url: rtu:///dev/ttyS9
    serial: { baudRate: 9600 }
    devices: [{ asset: oven, unit: 4, groups: [{ every: 1s, tags: [${tags}] }] }]
`,
  );
  const plan = await holdfast('plan', file);
  assert.match(plan.out, /^oven \(unit 4\) every 1000 ms: 2 reads/m);
  assert.match(plan.out, /^ {2}hr:0 +\+125 +function 3/m);
  assert.match(plan.out, /busy 5\d %/);
  assert.equal(plan.code, 0);
  const [json] = JSON.parse((await holdfast('plan', file, '--json')).out);
  assert.equal(json.groups[0].reads[1].quantity, 75);
});

test('import turns a list of tags into devices, and tells every row that it cannot take', async (t) => {
  const file = join(tempDir(t), 'tags.csv');
  writeFileSync(
    file,
    '\uFEFFdevice;unit;tag;address;type;scale;interval;access;enum\r\n' +
      'press;1;temperature;40108;i16;0,1;1s;R;\r\n' +
      'press;1;"mode; main";hr:12;u16;;5s;RW;0=off|1=auto\r\n',
  );
  const imported = await holdfast('import', file);
  assert.equal(imported.code, 0, imported.err);
  assert.match(imported.err, /2 tags in 1 devices; 1 may be written/);
  assert.deepEqual(parse(imported.out), {
    devices: [
      {
        asset: 'press',
        unit: 1,
        addressing: 'plc1',
        groups: [
          { every: '1s', tags: [{ name: 'temperature', at: '40108', type: 'i16', scale: 0.1 }] },
          { every: '5s', tags: [{ name: 'mode; main', at: 'hr:12', type: 'u16', enum: { 0: 'off', 1: 'auto' } }] },
        ],
      },
    ],
  });
  assert.match((await holdfast('import', file, '--dry-run')).out, /hr:107 +\+1 +function 3/);
  assert.match((await holdfast('import', file, '--dry-run', '--base', '0')).out, /hr:108 +\+1 +function 3/);

  writeFileSync(file, 'tag,address,type\na,hr:1,u16\nb,hr:x,u16\nc,hr:2,u17\n,hr:3,u16\n');
  const refused = await holdfast('import', file);
  assert.equal(refused.code, 78);
  for (const line of [/line 3: at: expected co:/, /line 4: type: expected one of/, /line 5: name: must not be empty/])
    assert.match(refused.err, line);
});

test('import takes an export of Kepware', async (t) => {
  const file = join(tempDir(t), 'kepware.csv');
  writeFileSync(
    file,
    'Tag Name,Address,Data Type,Respect Data Type,Client Access,Scan Rate,Scaling,Raw Low,Raw High,Scaled Low,Scaled High\n' +
      '"Line1.Level",400011,Word,1,RO,500,Linear,0,27648,0,100\n' +
      '"Name",400020.16L,String,1,RO,500,,,,,\n' +
      '"Run",000005,Boolean,1,R/W,500,None,,,,\n',
  );
  const { out, err, code } = await holdfast('import', file, '--asset', 'line', '--unit', '7');
  assert.equal(code, 0, err);
  assert.deepEqual(parse(out).devices[0], {
    asset: 'line',
    unit: 7,
    addressing: 'plc1',
    groups: [
      {
        every: '500ms',
        tags: [
          { name: 'Line1_Level', at: '400011', type: 'u16', range: { raw: [0, 27648], eng: [0, 100], clamp: false } },
          { name: 'Name', at: '400020', length: 16, order: 'BADC', type: 'string' },
          { name: 'Run', at: '000005', type: 'bool' },
        ],
      },
    ],
  });
});
