import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { json } from '../../src/web/answer.js';
import { WebServer } from '../../src/web/server.js';
import { gatewayStatus, type StatusParts } from '../helpers/gateway-status.js';
import { Program } from '../helpers/program.js';
import { openRunning } from '../helpers/running.js';

/** What a command prints and how it ends. */
async function run(t: TestContext, ...args: string[]) {
  const program = new Program(t, args);
  const text = program.text();
  const { code } = await program.endsByItself();
  return { code, text: await text, stderr: program.stderr };
}

/** A web server that has this status. */
async function serve(t: TestContext, parts: StatusParts): Promise<string> {
  const web = await WebServer.open({ listen: '127.0.0.1:0', routes: { '/status': () => json(gatewayStatus(parts)) } });
  t.after(() => web.close());
  return web.url;
}

test('status and ingest status of a chain that runs well say so and end with 0', async (t) => {
  const { web } = await openRunning(t);
  const edge = await run(t, 'status', '--url', web.gateway);
  assert.equal(edge.code, 0, edge.text + edge.stderr);
  assert.match(edge.text, /line-1: ok/);
  assert.match(edge.text, /4 of 4 online/);
  assert.match(edge.text, /adds up/);
  const cloud = await run(t, 'ingest', 'status', '--url', web.ingest);
  assert.equal(cloud.code, 0, cloud.text + cloud.stderr);
  assert.match(cloud.text, /worker http.*subscribed.*rows\/s/);
  assert.match(cloud.text, /line-1\/\w+: .* behind/);
  const machine = await run(t, 'ingest', 'status', '--url', web.ingest, web.ingest, '--json');
  assert.equal(JSON.parse(machine.text).workers.length, 2);
});

for (const [situation, parts, said] of [
  ['a spool that is full', { spool: { state: 'full' } }, /the spool is full/],
  ['messages that were dropped', { spool: { dropped: 12 } }, /12 messages were dropped/],
  ['a cloud that takes nothing', { upstream: { state: 'held', cause: 'not authorised' } }, /not authorised/],
  ['a gateway that failed', { state: 'failed', causes: ['the spool file failed'] }, /the spool file failed/],
] as const)
  test(`status ends with 1 and says why: ${situation}`, async (t) => {
    const { code, text } = await run(t, 'status', '--url', await serve(t, parts));
    assert.equal(code, 1, text);
    assert.match(text, said);
  });

test('a cut line to the cloud alone needs nobody: the spool is there for that', async (t) => {
  const parts: StatusParts = { state: 'degraded', upstream: { state: 'backoff', cause: 'no route' } };
  const { code, text } = await run(t, 'status', '--url', await serve(t, parts));
  assert.equal(code, 0, text);
  assert.match(text, /backoff/);
});

test('a gateway that does not answer is told apart from one that needs a human', async (t) => {
  const { code, stderr } = await run(t, 'status', '--url', 'http://127.0.0.1:9');
  assert.equal(code, 69);
  assert.match(stderr, /gives no status/);
});
