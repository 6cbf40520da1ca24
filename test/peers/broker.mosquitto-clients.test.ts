import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { client, collect, openPlant } from '../helpers/broker.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const run = promisify(execFile);
const pub = peer('mosquitto_pub');
const sub = peer('mosquitto_sub');
const mosquitto = peer('mosquitto');

for (const version of ['31', '311', '5']) {
  test(`mosquitto_pub and mosquitto_sub, -V ${version}`, {
    skip: pub && sub ? false : 'no mosquitto clients',
  }, async (t) => {
    const plant = await openPlant(t);
    const port = String(plant.port);
    const common = ['-V', version, '-h', '127.0.0.1', '-p', port];
    const listener = spawn(sub as string, [
      ...common,
      '-i',
      'listener',
      '-c',
      ...(version === '5' ? ['-x', '60'] : []),
      '-t',
      'plant/#',
      '-q',
      '2',
      '-C',
      '6',
      '-F',
      '%t %q %r %p',
    ]);
    t.after(() => listener.kill());
    let isDone = false;
    listener.on('exit', () => {
      isDone = true;
    });
    let printed = '';
    listener.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    await until('it has subscribed', () => plant.broker.status().subscriptions === 1);
    for (const qos of ['0', '1', '2']) {
      await run(pub as string, [...common, '-t', 'plant/a', '-q', qos, '-m', `hello ${qos}`]);
      await run(pub as string, [...common, '-t', `plant/r${qos}`, '-q', qos, '-r', '-m', `kept ${qos}`]);
    }
    await until('it has got six messages', () => isDone);
    const expected = [0, 1, 2].flatMap((qos) => [
      `plant/a ${qos} 0 hello ${qos}`,
      `plant/r${qos} ${qos} 0 kept ${qos}`,
    ]);
    assert.deepEqual(printed.trim().split('\n'), expected);
    const kept = await run(sub as string, [...common, '-t', 'plant/+', '-q', '1', '-C', '3', '-F', '%t %q %r']);
    assert.deepEqual(kept.stdout.trim().split('\n').sort(), ['plant/r0 0 1', 'plant/r1 1 1', 'plant/r2 1 1']);
    assert.equal((await plant.rows()).length, 6);
  });
}

for (const protocol of ['mqttv311', 'mqttv50']) {
  test(`a stock mosquitto bridge (${protocol}) carries messages both ways, without a loop`, {
    skip: mosquitto ? false : 'no mosquitto',
  }, async (t) => {
    const plant = await openPlant(t);
    const dir = tempDir(t);
    // Mosquitto cannot say which free port it took, so one is taken from a listener that is closed again.
    const probe = await openPlant(t);
    const port = probe.port;
    await probe.broker.close();
    const config = [
      `listener ${port} 127.0.0.1`,
      'allow_anonymous true',
      'connection up',
      `address 127.0.0.1:${plant.port}`,
      'topic # both 1',
      `bridge_protocol_version ${protocol}`,
      'restart_timeout 1',
    ];
    writeFileSync(join(dir, 'mosquitto.conf'), `${config.join('\n')}\n`);
    const daemon = spawn(mosquitto as string, ['-c', join(dir, 'mosquitto.conf')], { stdio: 'ignore' });
    t.after(() => daemon.kill());
    const here = await client(t, plant);
    const received = collect(here);
    await here.subscribeAsync({ '$SYS/broker/connection/+/state': { qos: 1 }, 'plant/#': { qos: 1 } });
    await until('the bridge is up', () =>
      received.some(({ topic, text }) => topic.startsWith('$SYS/') && text === '1'),
    );
    const there = await client(t, { url: `mqtt://127.0.0.1:${port}` });
    const arrived = collect(there);
    await there.subscribeAsync('plant/#', { qos: 1 });
    await there.publishAsync('plant/up', 'up', { qos: 1 });
    await until('it came up', () => received.some(({ text }) => text === 'up'));
    await here.publishAsync('plant/down', 'down', { qos: 1 });
    await until('it came down', () => arrived.some(({ text }) => text === 'down'));
    await there.publishAsync('plant/up', 'last', { qos: 1 });
    await until('the last one', () => received.some(({ text }) => text === 'last'));
    const texts = received.filter(({ topic }) => topic.startsWith('plant/')).map(({ text }) => text);
    assert.deepEqual(texts, ['up', 'down', 'last'], 'each once');
  });
}
