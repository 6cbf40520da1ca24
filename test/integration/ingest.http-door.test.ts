import assert from 'node:assert/strict';
import { copyFileSync, readFileSync } from 'node:fs';
import { request as requestTls } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { parseAck } from '../../src/wire/ack.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { rowsFrom } from '../helpers/batches.js';
import { Authority } from '../helpers/certificates.js';
import { startHttp } from '../helpers/http-upstream.js';
import { openIngest } from '../helpers/ingest.js';
import { peer } from '../helpers/peers.js';
import { source } from '../helpers/rows.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { range } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const DOOR = { listen: '127.0.0.1:0', path: '/ingest', bodyBytesMax: 64 * 1024 };
const bytes = (from: number, to: number) => encodeColumns(source(), rowsFrom(from, to));

async function openDoor(t: TestContext, over: object = {}) {
  const { ingest } = await openIngest(t, 'mqtt://127.0.0.1:9', { http: { ...DOOR, ...over } });
  const url = ingest.httpUrl!;
  const post = (body: Uint8Array, headers: Record<string, string> = {}) =>
    fetch(url, { method: 'POST', body, headers });
  return { ingest, url, post };
}

test('each answer tells what the ledger holds; late and double batches are no matter', async (t) => {
  const { ingest, post } = await openDoor(t);
  const said = async (body: Uint8Array, headers?: Record<string, string>) => {
    const response = await post(body, headers);
    assert.equal(response.status, 200);
    const ack = parseAck(Buffer.from(await response.arrayBuffer()));
    return [ack?.through, ack?.missing];
  };
  assert.deepEqual(await said(bytes(1, 10)), [10, []]);
  assert.deepEqual(await said(bytes(21, 30)), [30, [{ from: 11, to: 20 }]]);
  assert.deepEqual(await said(await compress(bytes(21, 30)), { 'content-encoding': 'gzip' }), [
    30,
    [{ from: 11, to: 20 }],
  ]);
  assert.deepEqual(await said(bytes(11, 20)), [30, []]);
  assert.deepEqual([ingest.status().stored, ingest.status().duplicates], [30, 10]);
});

test('what is no batch for this endpoint is refused without being read', async (t) => {
  const { ingest, url, post } = await openDoor(t, { tokens: () => ['sesame'] });
  const auth = { authorization: 'Bearer sesame' };
  const status = async (response: Promise<Response>) => (await response).status;
  assert.equal(await status(post(bytes(1, 2))), 401);
  assert.equal(await status(post(bytes(1, 2), { authorization: 'Bearer sesam' })), 401);
  assert.equal(await status(post(bytes(1, 2), { authorization: 'Basic c2VzYW1lOg==' })), 401);
  assert.equal(await status(fetch(url)), 401);
  assert.equal(await status(fetch(url, { headers: auth })), 200);
  assert.equal(await status(fetch(`${url}/other`, { headers: auth })), 404);
  assert.equal(await status(fetch(url, { method: 'PUT', body: 'x', headers: auth })), 405);
  assert.equal(await status(post(bytes(1, 2), { ...auth, 'content-encoding': 'br' })), 415);
  assert.equal(await status(post(Buffer.alloc(DOOR.bodyBytesMax + 1), auth)), 413);
  const { rows, deadBatches } = ingest.status();
  assert.deepEqual({ rows, deadBatches }, { rows: 0, deadBatches: 0 });
  assert.equal(await status(post(bytes(1, 2), auth)), 200);
});

test('a body without a length is cut off at the limit', async (t) => {
  const { ingest, url } = await openDoor(t);
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.after(() => socket.destroy());
  socket.on('error', () => {});
  let answer = '';
  let ended = false;
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('close', () => {
    ended = true;
  });
  socket.write('POST /ingest HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
  const chunk = Buffer.alloc(16 * 1024);
  await until('an end', () => {
    if (!ended)
      socket.write(Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]));
    return ended;
  });
  assert.match(answer, /^HTTP\/1.1 413 /);
  assert.equal(ingest.status().deadBatches, 0);
});

test('clients that dribble their bytes are sent away, and others are served meanwhile', async (t) => {
  const { ingest, url, post } = await openDoor(t, { requestTimeoutMs: 300 });
  const { hostname, port } = new URL(url);
  let ended = 0;
  for (const start of ['POST /ing', 'POST /ingest HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\nab']) {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    socket.on('data', () => {});
    socket.on('close', () => ended++);
    socket.write(start);
    const dribble = setInterval(() => socket.write('x'), 20);
    t.after(() => {
      clearInterval(dribble);
      socket.destroy();
    });
  }
  assert.equal((await post(bytes(1, 5))).status, 200);
  await until('both are gone', () => ended === 2);
  assert.equal(ingest.status().stored, 5);
  assert.equal(ingest.status().deadBatches, 0);
});

test('a store that cannot be written: 503 and Retry-After, and nothing is kept aside', async (t) => {
  const { ingest } = await openIngest(t, 'mqtt://127.0.0.1:9', { http: DOOR, historian: { bytesMax: 400_000 } });
  const post = (from: number, to: number) => fetch(ingest.httpUrl!, { method: 'POST', body: bytes(from, to) });
  let response = await post(1, 500);
  for (let n = 1; response.status === 200 && n < 100; n++) response = await post(n * 500 + 1, n * 500 + 500);
  assert.equal(response.status, 503);
  assert.equal(response.headers.get('retry-after'), '5');
  assert.match(ingest.status().problem ?? '', /full/);
  assert.equal(ingest.status().deadBatches, 0);
  assert.equal(ingest.status().missing, 0);
});

const openssl = peer('openssl');
test('over TLS, with an authority of the plant', { skip: openssl ? false : 'openssl is not installed' }, async (t) => {
  const authority = new Authority(openssl!, tempDir(t));
  const tls = authority.issue('server', '/CN=ingest');
  const { ingest, url } = await openDoor(t, { tls, tlsLookMs: 20 });
  assert.match(url, /^https:/);
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(range(1, 30).map((n) => reading(n)));
  const untrusting = startHttp(t, spool, url);
  await until('the certificate is not trusted', () => /certificate/.test(untrusting.status(30).cause ?? ''));
  assert.equal(ingest.status().rows, 0);
  await untrusting.stop(0);
  startHttp(t, spool, url, { tls: { ca: authority.ca } });
  await until('drained', async () => (await spool.stats()).rows === 0);
  assert.equal(ingest.status().stored, 30);
  const other = authority.issue('renewed', '/CN=renewed');
  copyFileSync(other.key, tls.key);
  copyFileSync(other.cert, tls.cert);
  await until('the renewed certificate', async () => (await subjectOf(url, authority.ca)) === 'renewed');
  await assert.rejects(
    new Promise((resolve, reject) => {
      requestTls(url, { ca: undefined, maxVersion: 'TLSv1.1' }, resolve).on('error', reject).end();
    }),
  );
});

function subjectOf(url: string, ca: string): Promise<string | undefined> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connectTls({ host: hostname, port: Number(port), ca: readFileSync(ca) }, () => {
      const name = socket.getPeerCertificate().subject.CN;
      socket.destroy();
      resolve(Array.isArray(name) ? name[0] : name);
    });
    socket.on('error', () => resolve(undefined));
  });
}
