import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { json } from '../../src/web/answer.js';
import { WebServer } from '../../src/web/server.js';

function health(url: string): Promise<{ status: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['dist/src/main.js', 'health', '--url', url], (_, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    );
  });
}

test('health says what a live process, a broken one and an absent one answer', async (t) => {
  const web = await WebServer.open({ listen: '127.0.0.1:0', routes: { '/healthz': () => json({ alive: true }) } });
  t.after(() => web.close());
  const at = `${web.url}/healthz`;
  assert.deepEqual(await health(web.url), { status: 0, stdout: `${at} answers 200\n`, stderr: '' });

  const other = await WebServer.open({ listen: '127.0.0.1:0', routes: {} });
  t.after(() => other.close());
  assert.deepEqual(await health(other.url), { status: 1, stdout: `${other.url}/healthz answers 404\n`, stderr: '' });

  await web.close();
  const gone = await health(web.url);
  assert.equal(gone.status, 1);
  assert.match(gone.stdout, /\/healthz does not answer: connect ECONNREFUSED/);
});

test('health refuses what is not a web address', async () => {
  for (const url of ['127.0.0.1:8080', 'mqtt://127.0.0.1', 'http://']) {
    const { status, stderr } = await health(url);
    assert.equal(status, 64, url);
    assert.match(stderr, /is not a web address\n {2}hint: Write it like http:/);
  }
});
