/** Topic names and filters as MQTT allows them [MQTT5 4.7], and the forms this broker gives a meaning to. */
import { isUtf8 } from 'node:buffer';
import type { BrokerLimits } from './limits.js';
import { ProtocolError, REASON } from './reason.js';

type TopicLimits = Pick<BrokerLimits, 'topicBytesMax' | 'topicLevelsMax'>;

/** What MQTT and the matcher of Aedes allow, for filters that only say what would match. */
export const WIDEST_TOPIC: TopicLimits = { topicBytesMax: 65_535, topicLevelsMax: 100 };

/** Topics that have been checked, with their levels, so that a topic that comes again costs one look-up. */
const KNOWN_TOPICS_MAX = 20_000;
const REPLACEMENT = '\ufffd';

/** The notice that a stock Mosquitto bridge publishes about itself; the one `$` topic that clients may write. */
const BRIDGE_STATE = /^\$SYS\/broker\/connection\/[^/]+\/state$/;
const SHARED = /^\$share\/([^/+#]+)\/(.+)$/s;

const known = new Map<string, number>();

/** Throws ProtocolError unless `topic`, decoded from `bytes`, is a name that can be published to. */
export function checkTopic(topic: string, bytes: Uint8Array, limits: TopicLimits): void {
  if (bytes.length > limits.topicBytesMax) throw new ProtocolError(REASON.badTopic, 'the topic is too long');
  const levels = known.get(topic) ?? checkedLevels(topic, bytes);
  if (levels > limits.topicLevelsMax) throw new ProtocolError(REASON.badTopic, 'the topic has too many levels');
}

function checkedLevels(topic: string, bytes: Uint8Array): number {
  // Bytes that are not UTF-8 decode to the replacement character, which may also have been sent as such.
  const doubtful = topic.includes(REPLACEMENT);
  if (doubtful && !isUtf8(bytes)) throw new ProtocolError(REASON.malformed, 'the topic is not valid UTF-8');
  if (topic === '' || /[+#]/.test(topic)) throw new ProtocolError(REASON.badTopic, 'the topic is empty or a filter');
  if (topic.includes('\0')) throw new ProtocolError(REASON.malformed, 'the topic contains NUL');
  const levels = levelsOf(topic);
  if (doubtful) return levels;
  if (known.size >= KNOWN_TOPICS_MAX) known.clear();
  known.set(topic, levels);
  return levels;
}

/** Topics that begin with `$` belong to the server [MQTT-4.7.2-1]. */
export function isReserved(topic: string): boolean {
  return topic.charCodeAt(0) === 36 && !BRIDGE_STATE.test(topic);
}

/** `limits` are those of the filter as it is written, the prefix of a shared one included. */
export function isValidFilter(filter: string, limits: TopicLimits): boolean {
  if (filter === '' || filter.includes('\0') || filter.includes(REPLACEMENT)) return false;
  const levels = filter.split('/');
  if (levels.length > limits.topicLevelsMax || Buffer.byteLength(filter) > limits.topicBytesMax) return false;
  const wellPlaced = levels.every(
    (level, i) => (level === '#' && i === levels.length - 1) || level === '+' || !/[+#]/.test(level),
  );
  return wellPlaced && (levels[0] !== '$share' || SHARED.test(filter));
}

/** Group and inner filter of `$share/group/filter` [MQTT5 4.8.2], or undefined. */
export function sharedParts(filter: string): { group: string; inner: string } | undefined {
  const parts = SHARED.exec(filter);
  return parts ? { group: parts[1] as string, inner: parts[2] as string } : undefined;
}

function levelsOf(topic: string): number {
  let levels = 1;
  for (let at = topic.indexOf('/'); at >= 0; at = topic.indexOf('/', at + 1)) levels++;
  return levels;
}
