import { Buffer } from 'node:buffer';

/** Topics whose matches are remembered. A plant has few, and they repeat; above, the memory starts anew. */
const REMEMBERED_MAX = 4096;

/** Of any text in a packet [MQTT-1.5.4]. Bytes that are no UTF-8 grow when they are decoded and encoded again. */
export const TEXT_BYTES_MAX = 65_535;

export function isTopicName(topic: string): boolean {
  return topic.length > 0 && !/[+#\0]/.test(topic) && Buffer.byteLength(topic) <= TEXT_BYTES_MAX;
}

/** `#` stands alone at the end and `+` fills a level [MQTT-4.7.1-1, MQTT-4.7.1-2]. */
export function isTopicFilter(filter: string): boolean {
  if (filter.length === 0 || filter.includes('\0')) return false;
  const levels = filter.split('/');
  return levels.every((level, n) => (level === '#' ? n === levels.length - 1 : level === '+' || !/[+#]/.test(level)));
}

/** A wildcard in the first level does not match topics that start with `$` [MQTT-4.7.2-1]. */
export function matches(filter: readonly string[], topic: readonly string[]): boolean {
  if (topic[0]!.startsWith('$') && (filter[0] === '#' || filter[0] === '+')) return false;
  for (let n = 0; n < filter.length; n++) {
    if (filter[n] === '#') return true;
    if (n >= topic.length || (filter[n] !== '+' && filter[n] !== topic[n])) return false;
  }
  return filter.length === topic.length;
}

interface Entry<Owner, Options> {
  readonly levels: readonly string[];
  readonly owner: Owner;
  readonly options: Options;
}

/** Who has subscribed to what. Matching is a plain walk, remembered per topic until a subscription changes. */
export class Subscriptions<Owner extends object, Options> {
  private readonly byOwner = new Map<Owner, Map<string, Entry<Owner, Options>>>();
  private readonly remembered = new Map<string, readonly Entry<Owner, Options>[]>();

  /** False when it replaced one with the same filter. */
  add(owner: Owner, filter: string, options: Options): boolean {
    const own = this.byOwner.get(owner) ?? new Map<string, Entry<Owner, Options>>();
    const fresh = !own.has(filter);
    own.set(filter, { levels: filter.split('/'), owner, options });
    this.byOwner.set(owner, own);
    this.remembered.clear();
    return fresh;
  }

  /** False when there was none. */
  remove(owner: Owner, filter: string): boolean {
    this.remembered.clear();
    return this.byOwner.get(owner)?.delete(filter) ?? false;
  }

  removeAll(owner: Owner): void {
    this.remembered.clear();
    this.byOwner.delete(owner);
  }

  countOf(owner: Owner): number {
    return this.byOwner.get(owner)?.size ?? 0;
  }

  /** One entry for each matching filter; an owner may occur more than once. */
  match(topic: string): readonly Entry<Owner, Options>[] {
    const known = this.remembered.get(topic);
    if (known) return known;
    const levels = topic.split('/');
    const found = [...this.byOwner.values()].flatMap((own) =>
      [...own.values()].filter((entry) => matches(entry.levels, levels)),
    );
    if (this.remembered.size >= REMEMBERED_MAX) this.remembered.clear();
    this.remembered.set(topic, found);
    return found;
  }
}
