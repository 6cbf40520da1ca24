import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReadingType } from '../../src/model/reading.js';
import { encodeReadingPayload, type IgnoredKeys, parseReadingPayload } from '../../src/wire/reading.js';
import { Random } from '../helpers/random.js';
import { randomValue } from '../helpers/random-rows.js';
import { reading, T0 } from '../helpers/rows.js';

const parse = (text: string, type?: ReadingType, ignore?: IgnoredKeys) =>
  parseReadingPayload(Buffer.from(text), type, ignore);
const problem = (text: string | Buffer, type?: ReadingType, ignore?: IgnoredKeys) => {
  const parsed = parseReadingPayload(Buffer.from(text as string), type, ignore);
  return 'problem' in parsed ? parsed.problem : undefined;
};

test('what was written is read back exactly, value, type and quality', () => {
  const random = new Random(11);
  for (const type of ['f', 'i', 'b', 's', 'x', 'j'] as const)
    for (let n = 0; n < 500; n++) {
      const value = random.chance(0.05) ? null : randomValue(random, type);
      const quality = random.chance(0.5) ? random.int(0, 255) : 192;
      const payload = encodeReadingPayload(reading(type, value, { quality }));
      assert.deepEqual(parseReadingPayload(payload, type), { ts: T0, type, value, quality }, payload.toString());
    }
});

test('without a type the value decides', () => {
  const typed = (value: string) => {
    const parsed = parse(`{"ts":1,"value":${value}}`);
    return 'problem' in parsed ? parsed.problem : [parsed.type, parsed.value, parsed.quality];
  };
  assert.deepEqual(typed('true'), ['b', true, 192]);
  assert.deepEqual(typed('"on"'), ['s', 'on', 192]);
  assert.deepEqual(typed('20'), ['f', 20, 192]);
  assert.deepEqual(typed('-12.5e-3'), ['f', -0.0125, 192]);
  assert.deepEqual(typed('9007199254740992'), ['f', 2 ** 53, 192]);
  assert.deepEqual(typed('9007199254740993'), ['i', 9007199254740993n, 192]);
  assert.deepEqual(typed('18446744073709551615'), ['i', 2n ** 64n - 1n, 192]);
  assert.deepEqual(typed('null'), ['f', null, 0]);
  assert.deepEqual(typed('{"a":[1,"x",null]}'), ['j', { a: [1, 'x', null] }, 192]);
  assert.equal(typed('18446744073709551617'), 'an integer needs more than 64 bits');
  assert.equal(typed('{"a":9007199254740993}'), 'the value does not fit type j');
});

test('every decimal is the double that JSON.parse makes of it', () => {
  const random = new Random(3);
  for (let n = 0; n < 20_000; n++) {
    const digits = String(random.int(0, 10 ** random.int(1, 15)));
    const text = random.pick([
      `${digits}.${String(random.int(0, 10 ** 6)).padStart(random.int(1, 9), '0')}`,
      `-0.${digits}`,
      `${digits}e${random.int(-320, 290)}`,
      String(random.double()),
    ]);
    const parsed = parse(`{"ts":1,"value":${text}}`, 'f');
    assert.ok(!('problem' in parsed), text);
    assert.equal(parsed.value, JSON.parse(text), text);
  }
});

test('blanks, key order and escapes do not matter', () => {
  const parsed = parse(' {\n"quality" : "bad:comm-failure" ,\t"value": "a\\u00e4\\n", "ts" : 5 } ');
  assert.deepEqual(parsed, { ts: 5, type: 's', value: 'aä\n', quality: 24 });
});

test('quality names stand for OPC codes both ways, other codes are numbers', () => {
  const text = (quality: number) => encodeReadingPayload(reading('f', 1, { quality })).toString();
  assert.equal(text(192), `{"ts":${T0},"value":1}`);
  assert.equal(text(24), `{"ts":${T0},"value":1,"quality":"bad:comm-failure"}`);
  assert.equal(text(84), `{"ts":${T0},"value":1,"quality":"uncertain:range"}`);
  assert.equal(text(7), `{"ts":${T0},"value":1,"quality":7}`);
  for (const [name, code] of [
    ['"good"', 192],
    ['"uncertain"', 64],
    ['"bad"', 0],
    ['"bad:last-known"', 20],
    ['200', 200],
  ])
    assert.equal((parse(`{"ts":1,"value":1,"quality":${name}}`) as { quality: number }).quality, code);
  assert.equal(problem('{"ts":1,"value":1,"quality":"superb"}'), 'unknown quality "superb"');
  assert.equal(problem('{"ts":1,"value":1,"quality":-1}'), 'quality is no known code');
  assert.equal(problem('{"ts":1,"value":1,"quality":{"a":9007199254740993}}'), 'quality is no known code');
});

test('a null value with an explicit quality keeps it', () => {
  assert.deepEqual(parse('{"ts":1,"value":null,"quality":"good"}'), { ts: 1, type: 'f', value: null, quality: 192 });
  assert.equal(
    encodeReadingPayload(reading('f', null, { quality: 192 })).toString(),
    `{"ts":${T0},"value":null,"quality":"good"}`,
  );
});

test('what would not survive is a problem, so the message can travel as it is', () => {
  assert.equal(problem('{"ts":1,"value":1,"unit":"bar"}'), 'unknown key "unit"');
  assert.equal(problem('{"ts":1,"value":1,"value":2}'), 'duplicate key "value"');
  assert.equal(problem('{"ts":1,"value":1,"v\\u0061lue":2}'), 'duplicate key "value"');
  assert.equal(problem('{"ts":1,"value":{"a":1,"a":2}}'), 'duplicate key "a"');
  assert.equal(problem('{"ts":1,"value":{"__proto__":1}}'), 'the key __proto__ cannot be carried');
  assert.equal(problem('{"ts":1,"value":"\\ud800"}'), 'a string holds a lone surrogate');
  assert.equal(problem('{"ts":1,"value":1e999}'), 'a number is out of range');
  assert.equal(problem(`{"ts":1,"value":${'['.repeat(100_000)}`), 'nested deeper than 32 levels');
  const latin1 = Buffer.from('{"ts":1,"value":"gr\xfcn"}', 'latin1');
  assert.equal(problem(latin1), 'not valid UTF-8');
});

test('keys to ignore are left behind, but still must be JSON and single', () => {
  const ignore = new Set(['unit', 'meta']);
  const text = '{"unit":"bar","ts":1,"meta":{"a":[1]},"value":1}';
  assert.deepEqual(parse(text, undefined, ignore), { ts: 1, type: 'f', value: 1, quality: 192 });
  assert.deepEqual(parse(text, 'f', 'any'), { ts: 1, type: 'f', value: 1, quality: 192 });
  assert.equal(problem('{"ts":1,"unit":1,"unit":2,"value":1}', 'f', ignore), 'duplicate key "unit"');
  assert.match(problem('{"ts":1,"unit":x,"value":1}', 'f', 'any') ?? '', /not valid JSON/);
});

test('text that is no reading is named as such and never throws', () => {
  for (const text of [
    '',
    'null',
    '[]',
    '{}',
    '{"ts":1}',
    '{"value":1}',
    '{"ts":"1","value":1}',
    '{"ts":1.5,"value":1}',
    '{"ts":9007199254740993,"value":1}',
    '{"ts":1,"value":01}',
    '{"ts":1,"value":.5}',
    '{"ts":1,"value":5.}',
    '{"ts":1,"value":1e}',
    '{"ts":1,"value":+1}',
    '{"ts":1,"value":-}',
    '{"ts":1,"value":"a',
    '{"ts":1,"value":"a\n"}',
    '{"ts":1,"value":"\\x"}',
    '{"ts":1,"value":1}x',
    '{"ts":1,"value":1',
    '{"ts":1,"value":1,}',
    '{"ts":1,"value":NaN}',
    '{"ts":1,"value":tru}',
    '\ufeff{"ts":1,"value":1}',
  ])
    assert.ok(problem(text), text);
  const random = new Random(5);
  const valid = Buffer.from('{"ts":1790000000014,"value":{"a":[1.5,"x\\n",true]},"quality":"bad"}');
  for (let n = 0; n < 20_000; n++) {
    const broken = Buffer.from(valid);
    broken[random.int(0, broken.length - 1)] = random.int(0, 255);
    const parsed = parseReadingPayload(broken);
    let strict = true;
    try {
      JSON.parse(broken.toString('latin1'));
    } catch {
      strict = false;
    }
    // Whatever JSON refuses is refused here as well.
    if (!strict) assert.ok('problem' in parsed, broken.toString('latin1'));
  }
});

test('a value that does not fit its type is a problem', () => {
  assert.equal(problem('{"ts":1,"value":1.5}', 'i'), 'the value does not fit type i');
  assert.equal(problem('{"ts":1,"value":1}', 'b'), 'the value does not fit type b');
  assert.equal(problem('{"ts":1,"value":"x"}', 'f'), 'the value does not fit type f');
  assert.equal(problem('{"ts":1,"value":"@"}', 'x'), 'the value is not base64');
  assert.deepEqual(parse('{"ts":1,"value":"NaN"}', 'f'), { ts: 1, type: 'f', value: Number.NaN, quality: 192 });
});
