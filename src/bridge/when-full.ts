import { FilterSet } from '../wire/filter-set.js';

export type WhenFull = 'block' | 'drop-oldest';

export interface TopicClass {
  /** MQTT filters. */
  readonly topics: readonly string[];
  readonly whenFull: WhenFull;
}

/** What becomes of a topic's messages when the spool is full: the first class that has the topic decides, else the default. */
export class Classes {
  private readonly classes: readonly { filters: FilterSet; droppable: boolean }[];
  private readonly droppable: boolean;

  constructor(whenFull: WhenFull, classes: readonly TopicClass[]) {
    this.droppable = whenFull === 'drop-oldest';
    this.classes = classes.map(({ topics, whenFull }) => ({
      filters: new FilterSet(topics),
      droppable: whenFull === 'drop-oldest',
    }));
  }

  /** Whether any message may ever be dropped. */
  get drops(): boolean {
    return this.droppable || this.classes.some(({ droppable }) => droppable);
  }

  isDroppable(topic: string): boolean {
    for (const { filters, droppable } of this.classes) if (filters.matches(topic)) return droppable;
    return this.droppable;
  }
}
