/** MQTT topic names and filters [MQTT 5.0 §4.7, MQTT 3.1.1 §4.7]. */

/** Two-byte length prefix [MQTT-4.7.3-3]. */
const TOPIC_BYTES_MAX = 65_535;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Why `topic` cannot be published to, or undefined. */
export function topicNameProblem(topic: string): string | undefined {
  // [MQTT-3.3.2-2], [MQTT-4.7.1-1]
  if (topic.includes('+') || topic.includes('#')) return 'a topic name must not contain + or #';
  return textProblem(topic, 'topic name');
}

/** Why `filter` cannot be subscribed to, or undefined. */
export function topicFilterProblem(filter: string): string | undefined {
  const problem = textProblem(filter, 'topic filter');
  if (problem) return problem;
  const levels = filter.split('/');
  for (const [index, level] of levels.entries()) {
    // [MQTT-4.7.1-1]
    if (level.includes('#') && (level !== '#' || index !== levels.length - 1))
      return '# must stand alone in the last level';
    // [MQTT-4.7.1-2]
    if (level.includes('+') && level !== '+') return '+ must stand alone in its level';
  }
  return undefined;
}

function textProblem(text: string, what: string): string | undefined {
  if (text === '') return `a ${what} must not be empty`; // [MQTT-4.7.3-1]
  if (text.includes('\0')) return `a ${what} must not contain NUL`; // [MQTT-4.7.3-2]
  if (LONE_SURROGATE.test(text)) return `a ${what} must be valid UTF-8`; // [MQTT-1.5.4-1]
  // A UTF-16 unit is at most three bytes of UTF-8, so short ones need no count.
  if (text.length * 3 > TOPIC_BYTES_MAX && Buffer.byteLength(text) > TOPIC_BYTES_MAX)
    return `a ${what} must not be longer than ${TOPIC_BYTES_MAX} bytes`;
  return undefined;
}

/** Whether a valid filter takes a valid topic name. A leading wildcard takes no `$` topic [MQTT-4.7.2-1]. */
export function matches(filter: string, topic: string): boolean {
  return matchesLevels(filter.split('/'), topic.split('/'));
}

export function matchesLevels(filter: readonly string[], topic: readonly string[]): boolean {
  const [first] = filter;
  if ((first === '+' || first === '#') && topic[0]?.startsWith('$')) return false;
  for (const [index, level] of filter.entries()) {
    // `a/#` takes `a` as well [MQTT 5.0 §4.7.1.2].
    if (level === '#') return true;
    if (index >= topic.length || (level !== '+' && level !== topic[index])) return false;
  }
  return filter.length === topic.length;
}
