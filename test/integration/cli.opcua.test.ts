import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../helpers/tmp.js';
import { UaServer } from './readers.opcua-rig.js';

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function node(...args: string[]): Promise<Run> {
  const child = spawn(process.execPath, args);
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

const holdfast = (...args: string[]) => node('dist/src/main.js', 'opcua', ...args);

test('browse lists nodes within its bounds, and read shows their values', async (t) => {
  const server = await UaServer.open(t);
  const pki = ['--pki', join(tempDir(t), 'pki')];
  const all = await holdfast('browse', server.url, '--json', ...pki);
  assert.equal(all.code, 0, all.err);
  const nodes = all.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { node: string; name: string; depth: number });
  const speed = nodes.find(({ name }) => name === 'Speed');
  assert.deepEqual([speed?.node, speed?.depth], ['nsu=urn:plant;s=Speed', 2]);
  assert.equal(new Set(nodes.map(({ node }) => node)).size, nodes.length, 'each node once');

  const few = await holdfast('browse', server.url, '--max', '3', ...pki);
  assert.equal(few.out.trim().split('\n').length, 3);
  assert.match(few.err, /there are more/);

  const read = await holdfast('read', server.url, 'nsu=urn:plant;s=Total', 'ns=0;i=2259', '--json', ...pki);
  assert.equal(read.code, 0, read.err);
  const [total] = read.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual([total.type, total.value, total.status], ['UInt64', String(2n ** 64n - 2n), 'Good']);

  const missing = await holdfast('read', server.url, 'nsu=urn:plant;s=Nothing', ...pki);
  assert.equal(missing.code, 1);
  assert.match(missing.out, /BadNodeIdUnknown/);

  const secure = await holdfast('read', server.url, 'i=2258', '--mode', 'Sign', ...pki);
  assert.equal(secure.code, 69);
  assert.match(secure.err, /not trusted/);
  assert.match(secure.err, /trusted/);
  assert.ok(existsSync(join(pki[1] as string, 'rejected')));

  const nowhere = await holdfast('read', 'opc.tcp://127.0.0.1:9', 'i=2258', ...pki);
  assert.equal(nowhere.code, 69, nowhere.err);
});

test('a program that reads no OPC UA server never loads the stack', async (t) => {
  const script = join(tempDir(t), 'loads.cjs');
  writeFileSync(
    script,
    `import(${JSON.stringify(join(process.cwd(), 'dist/src/gateway/gateway.js'))}).then(() => {
      console.log(Object.keys(require.cache).filter((file) => file.includes('node-opcua')).length);
    });`,
  );
  const { code, out, err } = await node(script);
  assert.deepEqual([code, out.trim()], [0, '0'], err);
});
