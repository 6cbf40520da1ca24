import type { IngestConfig } from '../config/ingest-schema.js';
import { answers, askGateways } from '../ingest/ask-gateways.js';
import type { Records } from '../ingest/records.js';
import { sleep } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';
import { TopicTemplate } from '../wire/topic-template.js';
import type { Io } from './command.js';
import { brokerOf } from './source-options.js';
import { rangesText } from './window.js';

/** A gateway that is there answers within a second; a backlog in the broker's queue takes longer. */
const WAIT_MS = 20_000;
const LOOK_MS = 200;

/** Asks the gateways for every seq that has not arrived, waits for what comes of it, and says so. */
export async function requestMissing(
  source: IngestConfig['source'],
  records: Records,
  io: Io,
  json = false,
): Promise<void> {
  if (!source)
    throw new HoldfastError('usage.invalid', '--request goes over the broker, and the config has no source', {
      hint: 'Gateways that send by HTTP get the answer to each batch after its commit; they have nothing to ask for.',
    });
  const before = await records.ledger();
  const options = brokerOf(source);
  // Not the session of the ingest, which may be running.
  await askGateways(
    { ...options, clientId: `${options.clientId}-request` },
    TopicTemplate.parse(source.ackTopic),
    before,
  );
  const end = performance.now() + WAIT_MS;
  let now = answers(before, await records.ledger());
  while (now.some(({ unanswered }) => unanswered > 0) && performance.now() < end && !io.stop.aborted) {
    await sleep(LOOK_MS, io.stop);
    now = answers(before, await records.ledger());
  }
  for (const { gateway, epoch, asked, arrived, lost, unanswered } of now) {
    if (json) io.out(JSON.stringify({ request: { gateway, epoch, asked, arrived, lost, unanswered } }));
    else {
      const nobody = unanswered > 0 ? ' (away, with another spool by now, or without ack: app)' : '';
      const came = `${arrived} arrived, ${lost} lost, ${unanswered} without an answer${nobody}`;
      io.out(`${gateway}/${epoch}: asked for seqs ${rangesText(asked)}: ${came}`);
    }
  }
}
