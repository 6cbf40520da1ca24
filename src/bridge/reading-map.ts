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

interface FoundRule {
  readonly fields: Readonly<Record<string, string>>;
  readonly ignoreKeys: ReadonlySet<string>;
}

/** A plant's topics repeat for ever, so this many remembered answers serve nearly every message. */
const REMEMBERED_TOPICS_MAX = 10_000;
const OPAQUE: Identity = { type: 'p', asset: null, metric: null, deviceTs: null };

/** Finds out which published messages are readings: topic to asset and metric, payload to time and type. */
export class ReadingMap {
  private readonly rules: readonly { template: TopicTemplate; ignoreKeys: ReadonlySet<string> }[];
  private readonly remembered = new Map<string, FoundRule | null>();

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
    const rule = this.ruleOf(topic);
    if (rule) {
      const { fields, ignoreKeys } = rule;
      const reading = parseReadingPayload(payload, undefined, ignoreKeys);
      if ('problem' in reading) return reading;
      return { type: reading.type, asset: fields.asset ?? null, metric: fields.metric ?? null, deviceTs: reading.ts };
    }
    return OPAQUE;
  }

  private ruleOf(topic: string): FoundRule | null {
    const known = this.remembered.get(topic);
    if (known !== undefined) return known;
    let found: FoundRule | null = null;
    for (const { template, ignoreKeys } of this.rules) {
      const fields = template.match(topic);
      if (!fields) continue;
      found = { fields, ignoreKeys };
      break;
    }
    // Starting over is cheaper than keeping an order of use, and happens only to a flood of new topics.
    if (this.remembered.size >= REMEMBERED_TOPICS_MAX) this.remembered.clear();
    this.remembered.set(topic, found);
    return found;
  }
}
