import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { LINE_TAGS } from '../../src/sim/line-tags.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { historianFile, lineReader, openGateway, openIngestProgram } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const pub = peer('mosquitto_pub');
const sub = peer('mosquitto_sub');
const skip = pub && sub ? false : 'mosquitto-clients is not installed';

for (const version of ['311', '5'])
  test(`MQTT ${version}: Mosquitto's own clients as clients of the plant`, { skip }, async (t) => {
    const dir = tempDir(t);
    const plc = await SimulatedPlc.open({ port: 0 });
    t.after(() => plc.close());
    const cloud = await FaultBroker.open({ port: 0 });
    t.after(() => cloud.close());
    const ingest = await openIngestProgram(t, dir, cloud.port);
    const gateway = await openGateway(t, { dir, cloud: cloud.port, readers: [lineReader(plc.port)] });
    const port = String(new URL((await gateway.ready()).mqtt[0]!).port);
    /** Asynchronous, because the cloud lives in this process. */
    const run = async (program: string, args: string[], input = ''): Promise<string> => {
      const child = spawn(program, ['-V', version, '-h', '127.0.0.1', '-p', port, ...args]);
      t.after(() => child.kill('SIGKILL'));
      let text = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
      child.stdin.end(input);
      const [code] = await once(child, 'close');
      assert.equal(code, 0, `${program} ${args.join(' ')}: ${text}`);
      return text;
    };
    await until('every device to be read', async () =>
      (await gateway.status()).readers.every((reader: { readings: number }) => reader.readings > 0),
    );

    // One retained value for each tag, at once for whoever comes.
    const tags = LINE_TAGS.map(({ asset, name }) => `plant/${asset}/${name}`).sort();
    const retained = await run(sub!, [
      '-t',
      'plant/#',
      '--retained-only',
      '-F',
      '%t %r',
      '-C',
      String(tags.length),
      '-W',
      '10',
    ]);
    assert.deepEqual(
      retained.trim().split('\n').sort(),
      tags.map((tag) => `${tag} 1`),
    );

    // A subscriber that is away gets what was published meanwhile.
    const away = ['-i', 'hmi', '-c', '-q', '1', '-t', 'plant/notes/#', ...(version === '5' ? ['-x', '3600'] : [])];
    await run(sub!, [...away, '-E']);
    const lines = Array.from({ length: 200 }, (_, n) => `note ${n}`);
    for (const qos of ['1', '2'])
      await run(pub!, ['-q', qos, '-t', `plant/notes/shift/q${qos}`, '-l'], `${lines.join('\n')}\n`);
    await run(pub!, ['-q', '1', '-r', '-t', 'plant/notes/recipe', '-m', 'lemonade']);
    const missed = await run(sub!, [...away, '-C', '401', '-W', '10', '-F', '%t %p']);
    const expected = ['1', '2'].flatMap((qos) => lines.map((line) => `plant/notes/shift/q${qos} ${line}`));
    assert.deepEqual(missed.trim().split('\n'), [...expected, 'plant/notes/recipe lemonade']);
    assert.equal(await run(sub!, ['-t', 'plant/notes/recipe', '-C', '1', '-W', '10', '-F', '%r %p']), '1 lemonade\n');

    assert.equal((await gateway.end()).code, 0, gateway.stderr);
    await until('everything to be stored', () => cloud.stats().queued === 0);
    assert.equal((await ingest.end()).code, 0, ingest.stderr);
    const kept = ask<{ line: string }>(
      historianFile(dir),
      "SELECT topic || ' ' || CAST(payload AS TEXT) AS line FROM opaque WHERE topic LIKE 'plant/%' ORDER BY seq",
    );
    assert.deepEqual(
      kept.map(({ line }) => line),
      [...expected, 'plant/notes/recipe lemonade'],
    );
  });
