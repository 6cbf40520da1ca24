import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Millis } from '../../src/model/ids.js';
import type { GatewayStatus } from '../../src/model/status.js';
import { GatewayPages } from '../../src/web/gateway-pages.js';
import { WebServer } from '../../src/web/server.js';
import { eventsOf } from '../helpers/event-stream.js';
import { gatewayStatus } from '../helpers/gateway-status.js';
import { until } from '../helpers/wait.js';

async function open(t: TestContext, status: () => Promise<GatewayStatus>, sampleEveryMs = 5) {
  const pages = await GatewayPages.open({ status, sampleEveryMs });
  t.after(() => pages.close());
  const server = await WebServer.open({ listen: '127.0.0.1:0', routes: pages.routes });
  t.after(() => server.close());
  return { pages, server };
}

/** A status whose every call is a second later and ten rows further. */
function ticking() {
  let calls = 0;
  return async () => {
    calls++;
    const received = 1_000 + calls * 10;
    return gatewayStatus({ now: (1_700_000_000_000 + calls * 1_000) as Millis, spool: { received, rows: calls } });
  };
}

test('a gateway serves its page, its files and its status', async (t) => {
  const { server } = await open(t, ticking());
  const page = await fetch(`${server.url}/`);
  assert.equal(page.status, 200);
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/);
  const links = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link as string);
  assert.ok(links.includes('page.js') && links.includes('page.css'));
  for (const link of links) assert.equal((await fetch(new URL(link, `${server.url}/`))).status, 200, link);
  const status = (await (await fetch(`${server.url}/status`)).json()) as GatewayStatus;
  assert.equal(status.gateway, 'line-1');
  assert.equal(status.spool.balanced, true);
});

test('history grows while nobody watches', async (t) => {
  const { server } = await open(t, ticking());
  const history = await until('five samples', async () => {
    const columns = (await (await fetch(`${server.url}/history`)).json()) as Record<string, unknown[]>;
    return (columns.t?.length ?? 0) >= 5 && columns;
  });
  const rising = history.t as number[];
  assert.ok(rising.every((t, i) => i === 0 || t > (rising[i - 1] as number)));
  for (const column of ['rows', 'bytes', 'oldestAgeMs', 'receivedPerS', 'acknowledgedPerS', 'upstream'])
    assert.equal(history[column]?.length, rising.length, column);
  assert.equal(history.receivedPerS?.[0], null);
  assert.ok((history.receivedPerS?.[1] as number) > 0);
  assert.equal(history.upstream?.[0], 'online');
});

test('the event stream gives snapshot after snapshot and ends with the server', async (t) => {
  const { server } = await open(t, ticking());
  const events = eventsOf(await fetch(`${server.url}/events`));
  const seen: { status: GatewayStatus; sample: { rows: number } }[] = [];
  for await (const { event, data } of events) {
    assert.equal(event, 'snapshot');
    seen.push(data as (typeof seen)[number]);
    if (seen.length === 2) await server.close();
  }
  assert.ok(seen.length >= 2);
  assert.ok((seen[1]?.status.now ?? 0) > (seen[0]?.status.now ?? 0));
  assert.equal(seen[0]?.sample.rows, seen[0]?.status.spool.rows);
});

test('a degraded gateway is ready, a failed one is not, and both are alive', async (t) => {
  let state: GatewayStatus['state'] = 'degraded';
  const { server } = await open(t, async () => gatewayStatus({ state, causes: ['the disk'] }), 1_000);
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
  state = 'failed';
  const ready = await fetch(`${server.url}/readyz`);
  assert.equal(ready.status, 503);
  assert.deepEqual(await ready.json(), { state: 'failed', causes: ['the disk'] });
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('a status that fails is 503, leaves a hole in the history, and comes back', async (t) => {
  const tick = ticking();
  let broken = true;
  const { server } = await open(t, async () => {
    if (broken) throw new Error('the spool is closing');
    return tick();
  });
  for (const path of ['/status', '/readyz']) {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 503, path);
    assert.doesNotMatch(await response.text(), /closing/);
  }
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  broken = false;
  await until('a sample', async () => {
    const history = (await (await fetch(`${server.url}/history`)).json()) as { t: number[] };
    return history.t.length > 0;
  });
});

test('a status that hangs is asked for once, not once a tick', async (t) => {
  let calls = 0;
  let release: (status: GatewayStatus) => void = () => {};
  const { pages } = await open(t, () => {
    calls++;
    return new Promise((resolve) => {
      release = resolve;
    });
  });
  let ticks = 0;
  const beat = setInterval(() => ticks++, 5);
  t.after(() => clearInterval(beat));
  await until('twenty ticks', () => ticks >= 20);
  assert.equal(calls, 1);
  const closed = pages.close();
  release(gatewayStatus());
  await closed;
  await pages.close();
  assert.equal(calls, 1);
});
