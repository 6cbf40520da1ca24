import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { encodeAck } from '../../src/wire/ack.js';
import type { Batch } from '../../src/wire/batch.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { startHttp } from '../helpers/http-upstream.js';
import { openIngest } from '../helpers/ingest.js';
import { message, openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { range } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const DOOR = { listen: '127.0.0.1:0', path: '/ingest', bodyBytesMax: 1024 * 1024 };
/** Nobody listens there; these ingests take batches by HTTP only. */
const NO_BROKER = 'mqtt://127.0.0.1:9';

async function spoolWith(t: TestContext, rows: number, row: (n: number) => ReturnType<typeof message> = reading) {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(range(1, rows).map(row));
  return { spool, rows: async () => (await spool.stats()).rows };
}

type Judge = (batch: Batch, request: IncomingMessage, response: ServerResponse) => unknown;

/** An endpoint that takes everything but where `judge` answers itself. */
async function openEndpoint(t: TestContext, judge: Judge = () => false) {
  const hub = { judge, url: '', taken: new Set<number>(), posts: 0, sockets: new Set<unknown>(), atOnce: 0, most: 0 };
  const server = createServer(async (request, response) => {
    hub.sockets.add(request.socket);
    if (request.method === 'GET') return response.end('{"ok":true}');
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const batch = decodeBatch(Buffer.concat(chunks));
    hub.posts++;
    hub.most = Math.max(hub.most, ++hub.atOnce);
    response.on('close', () => hub.atOnce--);
    if (await hub.judge(batch, request, response)) return;
    for (const { seq } of batch.rows) hub.taken.add(seq);
    response.end(encodeAck({ source: batch.source, from: batch.first, through: batch.last, missing: [] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  hub.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ingest`;
  return hub;
}

const answer = (status: number, headers: Record<string, string> = {}, body = '') =>
  ((_: Batch, __: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, headers).end(body);
    return true;
  }) satisfies Judge;

test('a backlog and what comes later: stored by a real ingest, and deleted only then, in every format', async (t) => {
  for (const format of ['columns', 'rows-json', 'rows-msgpack'] as const) {
    const { spool, rows } = await spoolWith(t, 95);
    const { ingest } = await openIngest(t, NO_BROKER, { http: { ...DOOR, tokens: () => ['old', 'sesame'] } });
    startHttp(t, spool, ingest.httpUrl!, { format, gzip: format !== 'rows-json', token: () => 'sesame' });
    await until('drained', async () => (await rows()) === 0);
    await spool.enqueue([reading(96), message(97)]);
    await until('live', async () => ingest.status().rows === 97);
    const { stored, opaque, missing, deadBatches } = ingest.status();
    assert.deepEqual({ stored, opaque, missing, deadBatches }, { stored: 96, opaque: 1, missing: 0, deadBatches: 0 });
  }
});

test('several requests at once on kept connections; a body is what its headers say', async (t) => {
  const { spool, rows } = await spoolWith(t, 300);
  const waiting: (() => void)[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const hub = await openEndpoint(t, async (_, request) => {
    headers.push(request.headers);
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      // The newest is answered first, so that answers come in another order than requests.
      if (waiting.length === 4) for (const go of waiting.splice(0).reverse()) go();
    });
  });
  startHttp(t, spool, hub.url);
  await until('nearly all', async () => (await rows()) < 40);
  assert.equal(hub.most, 4);
  assert.ok(hub.sockets.size <= 5, `${hub.sockets.size} connections for ${hub.posts} batches`);
  assert.equal(headers[0]?.['content-type'], 'application/vnd.holdfast.batch+msgpack');
  assert.equal(headers[0]?.['content-encoding'], 'gzip');
  hub.judge = () => false;
  for (const go of waiting) go();
  await until('all', async () => (await rows()) === 0);
  assert.equal(hub.taken.size, 300);
});

test('answers that acknowledge nothing, or something else, delete nothing', async (t) => {
  const { spool, rows } = await spoolWith(t, 20);
  const hub = await openEndpoint(t);
  const words =
    (over: object, hole = false) =>
    (batch: Batch, _: unknown, response: ServerResponse) => {
      const missing = hole ? [{ from: batch.first, to: batch.first }] : [];
      response.end(encodeAck({ source: batch.source, from: 1, through: batch.last, missing, ...over }));
      return true;
    };
  const replayer = startHttp(t, spool, hub.url);
  for (const [judge, cause] of [
    [
      answer(200, {}, '<html>Please log in</html>'),
      /answered 200: <html>Please log in<\/html>, which acknowledges nothing/,
    ],
    [answer(204), /acknowledges nothing/],
    [words({ source: { gateway: 'line-1', epoch: 'another' } }), /another life of its spool/],
    [words({ source: { gateway: 'line-2', epoch: spool.epoch } }), /another gateway/],
    [words({}, true), /does not cover seqs/],
    [words({ through: 0 }), /does not cover seqs/],
    [answer(302, { location: '/login' }), /answered 302/],
    [answer(404), /answered 404/],
  ] as const) {
    hub.judge = judge;
    await until(
      `held: ${cause}`,
      () => replayer.status(20).state === 'held' && cause.test(replayer.status(20).cause ?? ''),
    );
    assert.equal(await rows(), 20);
  }
  hub.judge = () => false;
  await until('drained', async () => (await rows()) === 0);
  assert.equal((await spool.stats()).dead, 0);
});

for (const status of [400, 413, 422])
  test(`one row that is answered with ${status}: it alone is set aside`, async (t) => {
    const { spool, rows } = await spoolWith(t, 60);
    const hub = await openEndpoint(t, (batch, request, response) =>
      batch.rows.some(({ seq }) => seq === 37) ? answer(status)(batch, request, response) : false,
    );
    startHttp(t, spool, hub.url, { batchRowsMax: 20 });
    await until('drained', async () => (await rows()) === 0, 30_000);
    assert.deepEqual(
      (await spool.dead(5)).map(({ seq }) => seq),
      [37],
    );
    assert.deepEqual(
      [...hub.taken].sort((a, b) => a - b),
      range(1, 60).filter((n) => n !== 37),
    );
  });

for (const status of [401, 403])
  test(`${status} is nobody's fault: held, kept, tried again`, async (t) => {
    const { spool, rows } = await spoolWith(t, 5);
    const hub = await openEndpoint(t, answer(status));
    const replayer = startHttp(t, spool, hub.url, { batchRowsMax: 1, inFlightMax: 1 });
    await until('many refusals', () => hub.posts > 20);
    assert.equal(replayer.status(5).state, 'held');
    assert.match(replayer.status(5).cause ?? '', new RegExp(`answered ${status}`));
    const stats = await spool.stats();
    assert.deepEqual([stats.rows, stats.dead], [5, 0]);
    hub.judge = () => false;
    await until('drained', async () => (await rows()) === 0);
  });

test('503 with Retry-After: nobody asks again before the time is over', async (t) => {
  const { spool, rows } = await spoolWith(t, 10);
  const posts: number[] = [];
  const hub = await openEndpoint(t, (...args) => {
    posts.push(performance.now());
    return posts.length === 1 ? answer(503, { 'retry-after': '1' })(...args) : false;
  });
  const replayer = startHttp(t, spool, hub.url);
  await until('held', () => replayer.status(10).state === 'held');
  await until('drained', async () => (await rows()) === 0);
  assert.ok(posts[1]! - posts[0]! >= 1_000, `${posts[1]! - posts[0]!} ms`);
});

test('500, a cut connection, silence: everything goes again, nothing is lost and no row blamed', async (t) => {
  const { spool, rows } = await spoolWith(t, 200);
  let n = 0;
  const hub = await openEndpoint(t, (batch, request, response) => {
    n++;
    if (n === 3) return answer(500)(batch, request, response);
    if (n === 8) return request.socket.destroy();
    if (n === 14) return true;
    if (n === 20) return response.writeHead(200, { 'content-length': '1000' }).write('{"v":');
    return false;
  });
  const replayer = startHttp(t, spool, hub.url, { ackTimeoutMs: 400 });
  await until('drained', async () => (await rows()) === 0, 20_000);
  assert.equal(hub.taken.size, 200);
  assert.equal((await spool.stats()).dead, 0);
  assert.ok(replayer.status(0).connects >= 4);
});

test('an endpoint that is not there, and then is', async (t) => {
  const { spool, rows } = await spoolWith(t, 10);
  const first = await openIngest(t, NO_BROKER, { http: DOOR });
  const url = first.ingest.httpUrl!;
  await first.ingest.close();
  const replayer = startHttp(t, spool, url);
  await until('noticed', () => /ECONNREFUSED/.test(replayer.status(10).cause ?? ''));
  const second = await openIngest(t, NO_BROKER, { http: { ...DOOR, listen: new URL(url).host } });
  await until('drained', async () => (await rows()) === 0);
  assert.equal(second.ingest.status().stored, 10);
});

test('a wrong token is told at once, and no row is touched', async (t) => {
  const { spool, rows } = await spoolWith(t, 10);
  let tokens = ['right'];
  const { ingest } = await openIngest(t, NO_BROKER, { http: { ...DOOR, tokens: () => tokens } });
  const replayer = startHttp(t, spool, ingest.httpUrl!, { token: () => 'wrong' });
  await until('held', () => replayer.status(10).state === 'held');
  assert.match(replayer.status(10).cause ?? '', /answered 401/);
  assert.equal(await rows(), 10);
  tokens = ['wrong', 'right'];
  await until('a changed token works', async () => (await rows()) === 0, 20_000);
});

test('what a POST carries is readable without knowing Holdfast', async (t) => {
  const { spool } = await spoolWith(t, 3);
  const bodies: Buffer[] = [];
  const server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      bodies.push(Buffer.concat(chunks));
    }
    response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const replayer = startHttp(t, spool, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
    format: 'rows-json',
  });
  await until('the greeting is refused', () => replayer.status(3).cause?.includes('503') === true);
  assert.equal(bodies.length, 0, 'nothing is sent to somebody who is not ready');
  server.removeAllListeners('request');
  server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method === 'POST') bodies.push(Buffer.concat(chunks));
    response.end();
  });
  await until('a body', () => bodies.length > 0);
  const rows = JSON.parse(gunzipSync(bodies[0]!).toString()) as { seq: number; value: number }[];
  assert.deepEqual(
    rows.map(({ seq, value }) => [seq, value]),
    [
      [1, 1],
      [2, 2],
      [3, 3],
    ],
  );
});
