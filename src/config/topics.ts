import * as z from 'zod';

/** [MQTT-4.7.3-3] */
const TOPIC_BYTES_MAX = 65_535;

const PLACEHOLDER = /^\{(\w+)\}$/;

/** A topic filter that is bridged or subscribed to. `$`-topics belong to the broker that they are on. */
export const topicFilter = z.string().superRefine((filter, context) => {
  const fault = topicFault(filter) ?? wildcardFault(filter);
  if (fault) context.addIssue({ code: 'custom', message: fault });
});

const SHARED = /^\$share\/([^/+#]+)\/(.+)$/s;

/** The same where several workers may divide the messages among them: `$share/GROUP/FILTER` [MQTT5 4.8.2]. */
export const sharableFilter = z.string().superRefine((filter, context) => {
  const shared = SHARED.exec(filter);
  const plain = shared?.[2] ?? filter;
  const fault = filter.startsWith('$share/') && !shared ? 'expected $share/GROUP/FILTER' : topicFault(plain);
  const problem = fault ?? wildcardFault(plain);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});

/**
 * A topic to publish to, with placeholders as whole levels: each of `required` exactly once, `optional` at most once. With
 * `any` the caller checks what else there is.
 */
export function topicTemplate(required: readonly string[], optional: readonly string[] | 'any' = []) {
  return z.string().superRefine((template, context) => {
    const fault = topicFault(template) ?? templateFault(template, required, optional);
    if (fault) context.addIssue({ code: 'custom', message: fault });
  });
}

/** One level of a topic: the name of an asset or of a metric. */
export const topicLevel = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[^/+#{}\0]*$/, { error: 'becomes one level of a topic, so it must not contain / + # { or }' })
  .regex(/^[^$]/, { error: 'becomes a level of a topic, so it must not begin with $' });

/**
 * Whether a topic that fits `template` can also fit `filter` [MQTT-4.7.1]. Placeholders that are still in the template
 * stand for any level.
 */
export function covers(filter: string, template: string): boolean {
  const wanted = filter.split('/');
  const given = template.split('/');
  for (const [index, level] of wanted.entries()) {
    if (level === '#') return true;
    const other = given[index];
    if (other === undefined) return false;
    if (level !== '+' && level !== other && !PLACEHOLDER.test(other)) return false;
  }
  return wanted.length === given.length;
}

/** The names of the placeholders of a template, in their order. */
export function placeholdersOf(template: string): string[] {
  return template.split('/').flatMap((level) => PLACEHOLDER.exec(level)?.[1] ?? []);
}

/** Puts the gateway's id where a template asks for it, and leaves the other placeholders. */
export function withGateway(template: string, gateway: string): string {
  return template.replaceAll('{gateway}', gateway);
}

function topicFault(topic: string): string | undefined {
  if (topic === '') return 'must not be empty';
  if (topic.includes('\0')) return 'must not contain a NUL character';
  if (topic.startsWith('$')) return "must not begin with $: these topics are the broker's own";
  const bytes = Buffer.byteLength(topic);
  return bytes > TOPIC_BYTES_MAX ? `must not be longer than ${TOPIC_BYTES_MAX} bytes, is ${bytes}` : undefined;
}

/** [MQTT-4.7.1-1] [MQTT-4.7.1-2] */
function wildcardFault(filter: string): string | undefined {
  const levels = filter.split('/');
  if (levels.some((level) => level.length > 1 && /[+#]/.test(level))) return 'a wildcard must be a whole level';
  if (levels.slice(0, -1).includes('#')) return '# must be the last level';
  return undefined;
}

function templateFault(
  template: string,
  required: readonly string[],
  optional: readonly string[] | 'any',
): string | undefined {
  if (/[+#]/.test(template)) return 'must not contain a wildcard: + and # are for subscribers';
  const known = optional === 'any' ? undefined : [...required, ...optional];
  const names: string[] = [];
  for (const level of template.split('/')) {
    const name = PLACEHOLDER.exec(level)?.[1];
    if (name !== undefined) names.push(name);
    else if (/[{}]/.test(level)) return `a placeholder must be a whole level, found ${level}`;
  }
  const unknown = names.find((name) => known?.includes(name) === false);
  if (unknown !== undefined) return `unknown placeholder {${unknown}}, known here: ${known?.map(braced).join(' ')}`;
  const missing = required.find((name) => !names.includes(name));
  if (missing !== undefined) return `must contain ${braced(missing)} as a whole level`;
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  return twice === undefined ? undefined : `must contain ${braced(twice)} only once`;
}

const braced = (name: string) => `{${name}}`;
