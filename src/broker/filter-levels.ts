/**
 * What filters match, and how two of them relate, level by level [MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.2-1]. Both are
 * valid, and split at their slashes.
 */
type Levels = readonly string[];

export function matches(filter: Levels, topic: Levels): boolean {
  if (startsWithDollar(filter) !== startsWithDollar(topic)) return false;
  for (let i = 0; i < filter.length; i++) {
    const level = filter[i];
    if (level === '#') return true;
    if (i >= topic.length || (level !== '+' && level !== topic[i])) return false;
  }
  return filter.length === topic.length;
}

/** There is a topic that both match. */
export function overlap(one: Levels, other: Levels): boolean {
  if (startsWithDollar(one) !== startsWithDollar(other)) return false;
  for (let i = 0; ; i++) {
    const [a, b] = [one[i], other[i]];
    // Also where the other one has ended: `x/#` matches `x`.
    if (a === '#' || b === '#') return true;
    if (a === undefined || b === undefined) return a === b;
    if (a !== '+' && b !== '+' && a !== b) return false;
  }
}

/** Every topic that the other matches is matched by this one. False in doubt: `+/#` is not known to cover `#`. */
export function covers(filter: Levels, other: Levels): boolean {
  if (startsWithDollar(filter) !== startsWithDollar(other)) return false;
  for (let i = 0; i < filter.length; i++) {
    const [level, inner] = [filter[i], other[i]];
    if (level === '#') return true;
    if (inner === undefined || inner === '#') return false;
    if (level !== '+' && level !== inner) return false;
  }
  return filter.length === other.length;
}

export function startsWithDollar(levels: Levels): boolean {
  return levels[0]?.charCodeAt(0) === 36;
}
