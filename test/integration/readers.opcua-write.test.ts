import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PRESS, UaRig, UaServer } from './readers.opcua-rig.js';

const tag = (name: string, write?: object) => ({ name, node: `nsu=urn:plant;s=${name}`, ...(write ? { write } : {}) });

test('only what is allowed is written, once, in the type of the node, and read back', async (t) => {
  const server = await UaServer.open(t);
  const tags = [tag('Setpoint', { min: 0, max: 100 }), tag('Total', {}), tag('Running', {}), tag('Count')];
  const rig = new UaRig(t, server.url, { devices: [{ asset: 'press', groups: [{ ...PRESS.groups[0]!, tags }] }] });
  await rig.sees('Setpoint', 10);
  const write = (name: string, value: unknown, mayStart = true) =>
    rig.driver.write({ device: 'press', tag: name, value }, () => mayStart);

  const done = await write('Setpoint', 42);
  assert.equal(done.outcome, 'done', JSON.stringify(done));
  assert.equal(done.readBack?.value, 42);
  await rig.sees('Setpoint', 42);
  assert.equal((await write('Total', 2n ** 64n - 1n)).readBack?.value, 2n ** 64n - 1n);
  assert.equal((await write('Running', false)).readBack?.value, false);

  const code = async (name: string, value: unknown) => {
    const { outcome, code: word } = await write(name, value);
    return [outcome, word];
  };
  assert.deepEqual(await code('Setpoint', 101), ['rejected', 'value']);
  assert.deepEqual(await code('Setpoint', 1.5), ['rejected', 'value']);
  assert.deepEqual(await code('Setpoint', 'x'), ['rejected', 'value']);
  assert.deepEqual(await code('Total', -1), ['rejected', 'value']);
  assert.deepEqual(await code('Count', 1), ['rejected', 'not-writable']);
  assert.deepEqual(await code('Nothing', 1), ['rejected', 'unknown-tag']);
  assert.equal((await write('Setpoint', 43, false)).outcome, 'expired');
  assert.equal(rig.last('Setpoint')?.value, 42, 'what was not carried out changed nothing');

  server.signal('SIGSTOP');
  const silent = await write('Setpoint', 44);
  assert.notEqual(silent.outcome, 'done');
  server.signal('SIGCONT');
});
