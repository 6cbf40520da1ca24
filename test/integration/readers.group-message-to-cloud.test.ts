import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReadingMap } from '../../src/bridge/reading-map.js';
import { silentLog } from '../../src/lib/log.js';
import type { Epoch, GatewayId, Millis, Seq } from '../../src/model/ids.js';
import type { SpoolRow } from '../../src/model/row.js';
import { type Outgoing, Reporter } from '../../src/readers/reporter.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { encodeReadingPayload } from '../../src/wire/reading.js';

test('a whole group survives the way to the cloud as one typed value, and is a reading to the plant too', async () => {
  const published: Outgoing[] = [];
  const reporter = new Reporter({
    sink: { publish: async (outgoing) => void published.push(...outgoing) },
    topicOf: (asset, metric) => `plant/${asset}/${metric}`,
    statusTopicOf: (asset) => `status/${asset}`,
    encodeReading: encodeReadingPayload,
    clock: { now: () => 0 as Millis, mono: () => 0 },
    log: silentLog,
    signal: new AbortController().signal,
  });
  await reporter.emit({
    device: 'press',
    ts: 1_767_225_600_000 as Millis,
    message: 'all',
    samples: [
      { tag: 'speed', type: 'f', value: 1.5, quality: 192 },
      { tag: 'mode', type: 's', value: 'auto', quality: 192 },
      { tag: 'level', type: 'f', value: null, quality: 16 },
    ],
  });
  const [{ message, identity }] = published as [Outgoing];
  const row: SpoolRow = {
    ...message,
    ...(identity as NonNullable<typeof identity>),
    seq: 1 as Seq,
    enqueuedAt: 1_767_225_600_001 as Millis,
  };
  const bytes = encodeColumns({ gateway: 'g' as GatewayId, epoch: 'e' as Epoch }, [row]);
  const [decoded] = decodeBatch(bytes).rows;
  assert.deepEqual(decoded && 'value' in decoded && decoded.value, { speed: 1.5, mode: 'auto', level: null });
  const map = new ReadingMap([{ topic: 'plant/{asset}/{metric}', ignoreKeys: [] }]);
  assert.deepEqual(map.identify(message), identity);
});
