import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { HoldfastError } from '../../src/lib/errors.js';
import { silentLog } from '../../src/lib/log.js';
import { Link } from '../../src/readers/modbus/link.js';
import type { ReadRequest } from '../../src/readers/modbus/requests.js';
import { Random } from '../helpers/random.js';
import { FakeRtu } from './readers.fake-rtu.js';

const READS = 400;
const TIMEOUT_MS = 30;
const LATE_SHARE = 0.05;

function linkTo(device: FakeRtu, region: ReadRequest, stopping: AbortSignal): Link {
  const link = new Link(
    {
      endpoint: device.endpoint,
      connectTimeoutMs: 10_000,
      timeoutMs: TIMEOUT_MS,
      minGapMs: 0,
      pauseAfterConnectMs: 0,
      acceptAnyUnit: false,
      localEcho: false,
      closeAfterPoll: false,
      backoff: { minMs: 5, maxMs: 5 },
      // Unit 2 is never asked, so the silence of unit 1 alone does not end the connection, and all that is late arrives.
      units: new Map([
        [1, { region, timeoutMs: TIMEOUT_MS, minGapMs: 0 }],
        [2, { region: undefined, timeoutMs: TIMEOUT_MS, minGapMs: 0 }],
      ]),
    },
    systemClock,
    silentLog,
    stopping,
  );
  link.start();
  return link;
}

for (const [seed, quantity] of [
  [7, 2],
  [11, 2],
  [23, 2],
  [7, 1],
] as const)
  test(`RTU, ${quantity} registers, seed ${seed}: a late answer is never taken for the next one`, async (t) => {
    const random = new Random(seed);
    const device = await FakeRtu.listen(t, (request) => {
      const late = random.chance(LATE_SHARE) ? TIMEOUT_MS * (1 + 6 * random.next()) : 0;
      return [late, device.answer(request)];
    });
    const stopping = new AbortController();
    const link = linkTo(device, { fc: 3, unit: 1, address: 0, quantity }, stopping.signal);
    t.after(() => link.close());
    await link.gate.wait(stopping.signal);
    let right = 0;
    let failed = 0;
    for (let i = 0; i < READS; i++) {
      const address = (i * 7) % 60_000;
      const answer = await link.read({ fc: 3, unit: 1, address, quantity }).catch((error) => {
        assert.ok(error instanceof HoldfastError && error.code.startsWith('device.'), String(error));
      });
      if (!answer) failed++;
      else if (answer.data.readUInt16BE(0) === address) right++;
    }
    t.diagnostic(`${right} right, ${failed} without an answer`);
    assert.equal(right + failed, READS, 'not one value of another register');
    assert.ok(failed > 0, 'the device was late at times');
    assert.ok(right > READS * 0.7, `${right} values`);
  });
