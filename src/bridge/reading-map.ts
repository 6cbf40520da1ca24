import type { Message } from '../model/message.js';
import type { Identity } from '../model/row.js';
import { parseReadingPayload } from '../wire/reading.js';
import { TopicTemplate } from '../wire/topic-template.js';

export interface ReadingRule {
  /** `plant/{asset}/{metric}` */
  readonly topic: string;
  /** Keys of the payload that may be left behind. Any other unknown key keeps the message as it is. */
  readonly ignoreKeys: readonly string[];
}

const OPAQUE: Identity = { type: 'p', asset: null, metric: null, deviceTs: null };

/** Finds out which published messages are readings: topic to asset and metric, payload to time and type. */
export class ReadingMap {
  private readonly rules: readonly { template: TopicTemplate; ignoreKeys: ReadonlySet<string> }[];

  constructor(rules: readonly ReadingRule[]) {
    this.rules = rules.map(({ topic, ignoreKeys }) => ({
      template: TopicTemplate.parse(topic),
      ignoreKeys: new Set(ignoreKeys),
    }));
  }

  /**
   * The identity of a message: opaque when no rule is for its topic. `problem` says why a message in a reading's topic is
   * no reading; it then travels as it is, so that nothing of it is lost.
   */
  identify({ topic, payload }: Message): Identity | { readonly problem: string } {
    for (const { template, ignoreKeys } of this.rules) {
      const fields = template.match(topic);
      if (!fields) continue;
      const reading = parseReadingPayload(payload, undefined, ignoreKeys);
      if ('problem' in reading) return reading;
      return { type: reading.type, asset: fields.asset ?? null, metric: fields.metric ?? null, deviceTs: reading.ts };
    }
    return OPAQUE;
  }
}
