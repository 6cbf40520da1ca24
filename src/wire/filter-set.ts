import { HoldfastError } from '../lib/errors.js';
import { matchesLevels, topicFilterProblem } from './topics.js';

/** A plant's topics repeat for ever, so this many remembered answers serve nearly every message. */
const REMEMBERED_TOPICS_MAX = 10_000;

/** Many filters asked about few topics: the first filter that takes a topic, remembered per topic. */
export class FilterSet {
  readonly filters: readonly string[];
  private readonly levels: readonly (readonly string[])[];
  private readonly remembered = new Map<string, number>();

  /** Throws `config.invalid` on a filter that is none. */
  constructor(filters: readonly string[]) {
    for (const filter of filters) {
      const problem = topicFilterProblem(filter);
      if (problem)
        throw new HoldfastError('config.invalid', `Topic filter "${filter}": ${problem}`, { values: { filter } });
    }
    this.filters = filters;
    this.levels = filters.map((filter) => filter.split('/'));
  }

  matches(topic: string): boolean {
    return this.indexOf(topic) >= 0;
  }

  /** The position of the first filter that takes `topic`, or -1. */
  indexOf(topic: string): number {
    const known = this.remembered.get(topic);
    if (known !== undefined) return known;
    const levels = topic.split('/');
    const index = this.levels.findIndex((filter) => matchesLevels(filter, levels));
    // Starting over is cheaper than keeping an order of use, and happens only to a flood of new topics.
    if (this.remembered.size >= REMEMBERED_TOPICS_MAX) this.remembered.clear();
    this.remembered.set(topic, index);
    return index;
  }
}
