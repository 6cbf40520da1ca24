import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, collect, openPlant } from '../helpers/broker.js';
import { openMosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
/** Below this everybody shows what only they know. */
const SYS = '$SYS/broker/';

/** What a dashboard has to parse: the digits made equal. */
function formOf(text: string): string {
  return text.replace(/^.* version .*$/, 'version').replace(/-?\d+/g, '0');
}

test('$SYS has all topics of Mosquitto, in the same forms, retained', {
  skip: mosquitto ? false : 'mosquitto is not installed',
}, async (t) => {
  const url = await openMosquitto(t, mosquitto as string, ['sys_interval 1']);
  const plant = await openPlant(t, { limits: { sysIntervalMs: 100 }, version: '0.0.0' });
  const seen = async (url: string): Promise<Map<string, string>> => {
    const subscriber = await client(t, { url });
    const received = collect(subscriber);
    await subscriber.subscribeAsync(`${SYS}#`, { qos: 1 });
    await subscriber.subscribeAsync('x', { qos: 1 });
    for (let n = 0; n < 5; n++) await subscriber.publishAsync('x', 'y', { qos: 1 });
    await until('all loads have been told', () =>
      received.some(({ topic }) => topic === `${SYS}load/publish/sent/15min`),
    );
    await until('and the last of an interval', () =>
      received.some(({ topic }) => topic === `${SYS}store/messages/bytes`),
    );
    const late = await client(t, { url });
    const retained = collect(late);
    await late.subscribeAsync(`${SYS}#`, { qos: 1 });
    await until('the retained ones', () => retained.filter(({ retain }) => retain).length >= 40);
    return new Map(retained.filter(({ retain }) => retain).map(({ topic, text }) => [topic, text]));
  };
  const [theirs, ours] = [await seen(url), await seen(plant.url)];
  const missing = [...theirs.keys()].filter((topic) => !ours.has(topic));
  assert.deepEqual(missing, []);
  const otherForms = [...theirs].filter(([topic, text]) => formOf(text) !== formOf(ours.get(topic) as string));
  assert.deepEqual(otherForms, []);
});
