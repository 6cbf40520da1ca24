import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import modbusSerial from 'modbus-serial';
import mqtt from 'mqtt';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const ModbusRTU = modbusSerial.default ?? modbusSerial;
const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));

type Fields = Record<string, unknown>;

interface Answer {
  readonly ready?: boolean;
  readonly port?: number;
  readonly stats?: Fields;
  readonly set?: Fields;
  readonly error?: string;
  readonly final?: Fields;
}

class Simulator {
  readonly lines: Answer[] = [];
  readonly child: ChildProcess;
  private readonly exit: Promise<unknown[]>;

  constructor(t: TestContext, ...args: string[]) {
    this.child = spawn(process.execPath, [MAIN, 'simulate', ...args, '--json'], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.exit = once(this.child, 'exit');
    createInterface({ input: this.child.stdout! }).on('line', (line) => this.lines.push(JSON.parse(line)));
    t.after(() => this.child.kill('SIGKILL'));
  }

  async port(): Promise<number> {
    const ready = await until('the ready line', () => this.lines[0]);
    assert.equal(ready.ready, true);
    return ready.port!;
  }

  async ask(command: string): Promise<Answer> {
    const n = this.lines.length;
    this.child.stdin!.write(`${command}\n`);
    return until(`an answer to ${command}`, () => this.lines[n]);
  }

  /** Stops in order; the exit code and the last line. */
  async stop(): Promise<{ code: unknown; final: Fields }> {
    this.child.kill('SIGTERM');
    const [code] = await this.exit;
    await until('the final line', () => this.lines.at(-1)?.final);
    return { code, final: this.lines.at(-1)!.final! };
  }
}

test('simulate plc: ready, read, asked, stdin closed, stopped; the truth is on disk', async (t) => {
  const truth = join(tempDir(t), 'truth');
  const plc = new Simulator(t, 'plc', '--port', '0', '--seed', '3', '--truth', truth);
  const client = new ModbusRTU();
  await client.connectTCP('127.0.0.1', { port: await plc.port() });
  t.after(() => client.close(() => {}));
  client.setID(1);
  await client.readHoldingRegisters(0, 20);
  assert.equal((await plc.ask('{"stats":true}')).stats?.readings, 7);
  assert.deepEqual((await plc.ask('{"set":{"exceptions":{"1":4}}}')).set?.exceptions, { 1: 4 });
  await assert.rejects(client.readHoldingRegisters(0, 1), { modbusCode: 4 });
  await plc.ask('{"set":{"exceptions":{}}}');
  assert.match((await plc.ask('{"set":{"typo":1}}')).error!, /typo/);
  assert.match((await plc.ask('what?')).error!, /JSON/);
  assert.match((await plc.ask('null')).error!, /command/);
  plc.child.stdin!.end();
  await client.readHoldingRegisters(0, 2);
  const { code, final } = await plc.stop();
  assert.equal(code, 0);
  assert.equal(final.readings, 8);
  assert.deepEqual(final.perAsset, { filler: 8, capper: 0, labeler: 0, palletizer: 0 });
  assert.equal(readFileSync(truth, 'utf8').trimEnd().split('\n').length, 8);
});

test('simulate cloud behind simulate wan: a message through both, a cut by command, and the message after it', async (t) => {
  const cloud = new Simulator(t, 'cloud', '--port', '0');
  const wan = new Simulator(t, 'wan', '--to', `127.0.0.1:${await cloud.port()}`, '--latency', '5ms');
  const client = await mqtt.connectAsync({
    host: '127.0.0.1',
    port: await wan.port(),
    protocol: 'mqtt',
    protocolVersion: 5,
    reconnectPeriod: 10,
  });
  t.after(() => client.endAsync(true));
  client.on('error', () => {});
  await client.publishAsync('t', 'one', { qos: 1 });
  assert.deepEqual(await wan.ask('{"set":{"cut":"reset"}}'), {
    set: { latencyMs: 5, kbps: 0, cut: 'reset', stall: null },
  });
  await until('the client saw it', () => !client.connected);
  const published = client.publishAsync('t', 'two', { qos: 1 });
  assert.equal((await cloud.ask('{"stats":true}')).stats?.publishes, 1);
  await wan.ask('{"set":{"cut":null}}');
  await published;
  await wan.ask('{"reset":true}');
  await client.publishAsync('t', 'three', { qos: 1 });
  await client.endAsync();
  assert.equal((await wan.stop()).code, 0);
  const { code, final } = await cloud.stop();
  assert.deepEqual([code, final.publishes, final.connects], [0, 3, 3]);
});
