import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { EXIT, HoldfastError } from '../../src/lib/errors.js';
import { json } from '../../src/web/answer.js';
import { EventHub } from '../../src/web/event-hub.js';
import { type Routes, WebServer } from '../../src/web/server.js';
import { eventsOf } from '../helpers/event-stream.js';
import { until } from '../helpers/wait.js';

const BIG = { text: 'spool '.repeat(2_000) };

async function serve(t: TestContext, routes: Routes = {}): Promise<WebServer> {
  const server = await WebServer.open({
    listen: '127.0.0.1:0',
    routes: {
      '/small': ({ query }) => json({ hello: query.get('name') }),
      '/big': () => json(BIG),
      '/kept': () => ({ status: 200, type: 'text/plain', body: 'page', etag: 'W/"1"' }),
      '/broken': () => {
        throw new Error('the password is hunter2');
      },
      ...routes,
    },
  });
  t.after(() => server.close());
  return server;
}

/** What comes back for bytes that no HTTP client would send, up to the end of the connection. */
async function raw(server: WebServer, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => {});
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(bytes);
  await once(socket, 'close');
  return text;
}

test('a route answers with JSON, its query, and headers that lock the page down', async (t) => {
  const server = await serve(t);
  const response = await fetch(`${server.url}/small?name=line-1`);
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { hello: 'line-1' });
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const policy = response.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/);
  assert.doesNotMatch(policy, /unsafe/);
});

test('HEAD has the headers of GET and no body', async (t) => {
  const server = await serve(t);
  const get = await fetch(`${server.url}/small`, { headers: { 'accept-encoding': 'identity' } });
  const head = await fetch(`${server.url}/small`, { method: 'HEAD', headers: { 'accept-encoding': 'identity' } });
  assert.equal(head.status, 200);
  assert.equal(head.headers.get('content-length'), get.headers.get('content-length'));
  assert.equal(await head.text(), '');
});

test('unknown paths, methods that change things and names of object members are refused', async (t) => {
  const server = await serve(t);
  for (const path of ['/', '/none', '/small/', '/__proto__', '/constructor', '/../small%2e'])
    assert.equal((await fetch(server.url + path)).status, 404, path);
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    const response = await fetch(`${server.url}/small`, { method });
    assert.equal(response.status, 405, method);
    assert.equal(response.headers.get('allow'), 'GET, HEAD');
  }
});

test('bodies, long URLs and long heads are refused and the connection closed', async (t) => {
  const server = await serve(t);
  const head = 'Host: 127.0.0.1\r\n';
  assert.match(await raw(server, `GET /small HTTP/1.1\r\n${head}Content-Length: 5\r\n\r\nhello`), /^HTTP\/1.1 413 /);
  assert.match(
    await raw(server, `GET /small HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`),
    /^HTTP\/1.1 413 /,
  );
  assert.match(await raw(server, `GET /${'x'.repeat(2_000)} HTTP/1.1\r\n${head}\r\n`), /^HTTP\/1.1 414 /);
  assert.match(await raw(server, `GET /small HTTP/1.1\r\n${head}X: ${'x'.repeat(9_000)}\r\n\r\n`), /^HTTP\/1.1 431 /);
  assert.match(await raw(server, 'nonsense\r\n\r\n'), /^HTTP\/1.1 400 /);
});

test('a loopback server does not answer to a name that a web site pointed at it', async (t) => {
  const server = await serve(t);
  const close = 'Connection: close\r\n\r\n';
  assert.match(await raw(server, `GET /small HTTP/1.1\r\nHost: evil.example\r\n${close}`), /^HTTP\/1.1 421 /);
  assert.match(await raw(server, `GET /small HTTP/1.1\r\nHost: localhost:8080\r\n${close}`), /^HTTP\/1.1 200 /);
});

test('large answers are compressed for those who ask, and kept files are not sent twice', async (t) => {
  const server = await serve(t);
  const get = (path: string, headers: Record<string, string>) =>
    new Promise<{ status: number | undefined; encoding: string | undefined; bytes: number }>((resolve, reject) => {
      request(server.url + path, { headers }, (response) => {
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode, encoding: response.headers['content-encoding'], bytes }),
        );
      })
        .on('error', reject)
        .end();
    });
  const plain = await get('/big', {});
  const small = await get('/big', { 'accept-encoding': 'gzip' });
  assert.equal(plain.encoding, undefined);
  assert.equal(small.encoding, 'gzip');
  assert.ok(small.bytes < plain.bytes / 10);
  assert.deepEqual(await (await fetch(`${server.url}/big`)).json(), BIG);
  assert.deepEqual(await get('/kept', { 'if-none-match': 'W/"1"' }), { status: 304, encoding: undefined, bytes: 0 });
  assert.equal((await get('/kept', { 'if-none-match': 'W/"0"' })).bytes, 4);
});

test('a route that throws answers 500 without saying why', async (t) => {
  const server = await serve(t);
  const response = await fetch(`${server.url}/broken`);
  assert.equal(response.status, 500);
  assert.doesNotMatch(await response.text(), /hunter2/);
  assert.equal((await fetch(`${server.url}/small`)).status, 200);
});

test('a port that is taken gives listen.failed with a hint', async (t) => {
  const server = await serve(t);
  await assert.rejects(WebServer.open({ listen: new URL(server.url).host, routes: {} }), (error) => {
    assert.ok(error instanceof HoldfastError);
    assert.equal(error.code, 'listen.failed');
    assert.equal(error.exit, EXIT.unavailable);
    assert.equal(error.values.code, 'EADDRINUSE');
    assert.match(error.hint ?? '', /web\.listen/);
    return true;
  });
});

test('close ends open streams and idle connections, frees the port, and can be called again', async (t) => {
  const hub = new EventHub();
  const server = await serve(t, { '/events': hub });
  const idle = connect(Number(new URL(server.url).port), '127.0.0.1');
  await once(idle, 'connect');
  const events = eventsOf(await fetch(`${server.url}/events`));
  hub.push('tick', 1);
  assert.deepEqual(await events.next(), { done: false, value: { event: 'tick', data: 1 } });
  const closed = Promise.all([once(idle, 'close'), server.close(), server.close()]);
  idle.resume();
  assert.equal((await events.next()).done, true);
  await closed;
  const again = await WebServer.open({ listen: new URL(server.url).host, routes: {} });
  await again.close();
});

test('a newcomer to a stream gets the latest event at once, and one watcher too many is sent away', async (t) => {
  const hub = new EventHub(2);
  const server = await serve(t, { '/events': hub });
  hub.push('tick', 1);
  hub.push('tick', 2);
  const first = eventsOf(await fetch(`${server.url}/events`));
  const second = eventsOf(await fetch(`${server.url}/events`));
  assert.deepEqual((await first.next()).value, { event: 'tick', data: 2 });
  assert.deepEqual((await second.next()).value, { event: 'tick', data: 2 });
  const third = await fetch(`${server.url}/events`);
  assert.equal(third.status, 503);
  await third.text();
  await first.return(undefined);
  await until('the place of the one that left', () => hub.size === 1);
  assert.equal((await fetch(`${server.url}/events`, { method: 'HEAD' })).status, 200);
});

test('a watcher that does not read misses events instead of making the server keep them', async (t) => {
  const hub = new EventHub();
  const server = await serve(t, { '/events': hub });
  const socket: Socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  t.after(() => socket.destroy());
  socket.pause();
  socket.write('GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  await until('the watcher', () => hub.size === 1);
  const frame = 'x'.repeat(256 * 1024);
  const pushed = 200;
  for (let i = 0; i < pushed; i++) {
    hub.push('tick', frame);
    await new Promise(setImmediate);
  }
  let received = 0;
  socket.on('data', (chunk) => {
    received += chunk.length;
  });
  socket.resume();
  const closed = once(socket, 'close');
  await server.close();
  await closed;
  assert.ok(received > 0);
  assert.ok(received < (pushed * frame.length) / 2, `${received} bytes were kept for it`);
});
