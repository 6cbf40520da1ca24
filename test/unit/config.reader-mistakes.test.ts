import assert from 'node:assert/strict';
import { test } from 'node:test';
import { complaints, configFile } from '../helpers/config-file.js';

const HEAD = 'gateway: { id: g }\nupstream: { url: "mqtt://h" }\nreaders:\n';

/** What the check says, without file, line and column. */
function said(t: Parameters<typeof configFile>[0], reader: string): string[] {
  const problems = complaints(configFile(t, HEAD + reader));
  return problems.map((line) => line.replace(/^c\.yaml:\d+:\d+: readers\.0\./, ''));
}

const tagged = (tag: string, group = '') =>
  `  - { type: modbus, url: "tcp://plc", devices: [{ asset: a, groups: [{ every: 1s, ${group}tags: [{ name: t, ${tag} }] }] }] }\n`;

const T = 'devices.0.groups.0.tags.0';

const TAGS: readonly (readonly [tag: string, problem: string])[] = [
  ['at: "hr:1", type: u8', `${T}.at: an 8-bit value needs its byte, like "hr:1.lo"`],
  ['at: "hr:1.4-2", type: u16', `${T}.at: the lower bit comes first, found 4-2`],
  ['at: "hr:1.4-20", type: u16', `${T}.at: a register has the bits 0 to 15, found 20`],
  ['at: "hr:1.0-33", type: u32', `${T}.at: a u32 has the bits 0 to 31, found 33`],
  ['at: "hr:1.2", type: f32', `${T}.at: a f32 is a whole value, not some bits of one`],
  ['at: "hr:1.2-3", type: bool', `${T}.at: a bool is one bit, found 2-3`],
  [
    'at: "hr:1", type: u32, order: GHEFCDAB',
    `${T}.order: is for 64-bit values; for a u32 write one of ABCD, BADC, CDAB, DCBA`,
  ],
  ['at: "hr:1", type: u16, range: { raw: [0, 1], eng: [5, 5] }', `${T}.range.eng: must have two different ends`],
  [
    'at: "hr:1", type: u16, scale: 2, range: { raw: [0, 1], eng: [0, 5] }',
    `${T}.range: takes the place of scale and offset; write one of them only`,
  ],
  ['at: "hr:1", type: f32, enum: { 0: off }', `${T}.enum: has no meaning for a f32`],
  [
    'at: "hr:1", type: u16, invalid: [18446744073709551615]',
    `${T}.invalid.0: is too large to be exact; write it in quotes, like "0xFFFFFFFFFFFFFFFF"`,
  ],
  [
    'at: "hr:1", type: u16, unit: " bar"',
    `${T}.unit: expected 1 to 64 characters like "°C", without line breaks or spaces around them`,
  ],
  [
    'at: "hr:1", type: u16, unit: ""',
    `${T}.unit: expected 1 to 64 characters like "°C", without line breaks or spaces around them`,
  ],
  ['at: "hr:1", type: u16, deadband: 5', `${T}.deadband: needs report: change`],
  ['at: "ir:1", type: u16, write: {}', `${T}.write: an input cannot be written; only coils and holding registers can`],
  ['at: "hr:1", type: u16, write: {}', `${T}.write: needs commands at the reader`],
  [
    'at: "hr:1", type: string, length: 126, chars: low',
    `${T}.length: a text of one character in each register has at most 125`,
  ],
];

for (const [tag, problem] of TAGS)
  test(`a tag that contradicts itself is refused: ${tag}`, (t) => {
    assert.ok(said(t, tagged(tag)).includes(problem), said(t, tagged(tag)).join('\n'));
  });

test('a percentage needs a range, and a message no name of a tag', (t) => {
  assert.deepEqual(said(t, tagged('at: "hr:1", type: u16, deadband: "1%"', 'report: change, message: t, ')), [
    'devices.0.groups.0.message: t is the name of a tag',
    `${T}.deadband: a percentage needs a range`,
  ]);
});

const LINKS: readonly (readonly [keys: string, device: string, problem: string])[] = [
  ['url: "tcp://h", serial: {}', '', 'serial: has no effect with tcp://'],
  [
    'url: "rtu:///dev/tty1", acceptAnyUnit: true',
    '',
    'acceptAnyUnit: cannot be with RTU: the unit id is all that tells answers apart',
  ],
  ['url: "tcp://h", localEcho: true', '', 'localEcho: has no effect with tcp://'],
  ['url: "rtu+tcp://h:4001"', 'unit: 0, ', 'devices.0.unit: a unit on a serial line is from 1 to 247, found 0'],
  ['url: "rtu:COM3"', '', 'url: expected a serial port like rtu:///dev/ttyUSB0 or rtu:///COM3'],
  ['url: "udp://h"', '', 'url: expected a URL like tcp://HOST:PORT, with one of tcp://, rtu+tcp://; found udp://'],
  ['url: "tcp://h", topic: "acme/{area}/{asset}/{metric}"', '', 'devices.0.labels: the topic needs a label area'],
  ['url: "tcp://h"', 'labels: { asset: x }, ', 'devices.0.labels: asset is no label, it is always known'],
];

for (const [keys, device, problem] of LINKS)
  test(`a link that contradicts itself is refused: ${keys} ${device}`, (t) => {
    const groups = 'groups: [{ every: 1s, tags: [{ name: t, at: "hr:1", type: u16 }] }]';
    const text = `  - { type: modbus, ${keys}, devices: [{ asset: a, ${device}${groups} }] }\n`;
    assert.ok(said(t, text).includes(problem), said(t, text).join('\n'));
  });

test('commands behind a door without a password are doubtful', (t) => {
  const tags = 'tags: [{ name: t, at: "hr:1", type: u16, write: {} }]';
  const reader = `  - { type: modbus, url: "tcp://h", commands: {}, devices: [{ asset: a, groups: [{ every: 1s, ${tags} }] }] }\n`;
  const listeners = (host: string) => `broker: { listeners: [{ url: "mqtt://${host}:1883", anonymous: true }] }\n`;
  const doubt =
    'warning: readers.0.commands: anybody who reaches 0.0.0.0 may write to these devices without a password';
  const told = (host: string) => complaints(configFile(t, HEAD + reader + listeners(host)));
  assert.ok(
    told('0.0.0.0').some((line) => line.endsWith(doubt)),
    told('0.0.0.0').join('\n'),
  );
  assert.deepEqual(told('127.0.0.1'), []);
});

test('a topic with the levels of a plant is right when every device has its labels', (t) => {
  const groups = 'groups: [{ every: 1s, tags: [{ name: t, at: "%MW1.4-7", type: u16 }] }]';
  const topic = 'topic: "plant/{gateway}/{area}/{asset}/{metric}"';
  const text = `  - { type: modbus, url: "rtu:///dev/ttyS0", serial: { baudRate: 9600 }, ${topic}, devices: [{ asset: a, labels: { area: hall-1 }, ${groups} }] }\n`;
  assert.deepEqual(said(t, text), []);
});
