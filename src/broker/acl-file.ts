/**
 * Mosquitto's `acl_file` [mosquitto.conf(5)]. Lines before the first `user` are for anonymous clients only, a `user`
 * section for that user, a `pattern` for everybody. Of the client's own lines a matching deny decides first, then any
 * that grants; only where none of them matches the patterns are asked in the same way. What nothing grants is denied, so
 * an empty file lets nobody do anything.
 */
import type { Principal } from './access.js';
import { covers, matches, overlap, startsWithDollar } from './filter-levels.js';
import { type LineProblem, readText, refused } from './line-problem.js';
import { isValidFilter, WIDEST_TOPIC } from './topics.js';

export const READ = 1;
export const WRITE = 2;
export type Action = typeof READ | typeof WRITE;

export interface Rule {
  readonly line: number;
  readonly text: string;
  /** Bits of what it grants; 0 denies. */
  readonly grants: number;
  readonly levels: readonly string[];
  readonly needsUser: boolean;
}

export interface Decision {
  readonly allowed: boolean;
  /** The line that decided; null when none did. */
  readonly rule: Rule | null;
  /** Why, where no line did. */
  readonly reason: string;
}

const NO_LINE = 'no line grants it';

const GRANTS: ReadonlyMap<string, number> = new Map([
  ['read', READ],
  ['write', WRITE],
  ['readwrite', READ | WRITE],
  ['deny', 0],
]);

export class Acl {
  private readonly anonymous: Rule[] = [];
  private readonly users = new Map<string, Rule[]>();
  private readonly patterns: Rule[] = [];

  /** Throws `config.invalid` with every bad line. */
  static async read(file: string): Promise<Acl> {
    return Acl.parse(await readText(file), file);
  }

  static parse(text: string, file: string): Acl {
    const acl = new Acl();
    const problems: LineProblem[] = [];
    let section = acl.anonymous;
    for (const [index, untrimmed] of text.split('\n').entries()) {
      const line = untrimmed.trimEnd();
      // Only a # in the first column makes a comment, only blanks separate: that is how Mosquitto reads it.
      if (line.startsWith('#') || line === '') continue;
      const [, keyword = '', rest = ''] = /^ *([^ ]+) *(.*)$/.exec(line) ?? [];
      if (keyword === 'user') {
        if (rest === '') problems.push({ file, line: index + 1, message: 'user needs a name' });
        section = acl.sectionOf(rest);
        continue;
      }
      const rule = parseRule(keyword, rest, index + 1);
      if (typeof rule === 'string') problems.push({ file, line: index + 1, message: rule });
      else if (keyword === 'pattern') acl.patterns.push(rule);
      else section.push(rule);
    }
    if (problems.length > 0) throw refused('the acl file is not valid', problems);
    return acl;
  }

  allows(principal: Principal, action: Action, topic: string): boolean {
    return this.decide(principal, action, topic).allowed;
  }

  decide(principal: Principal, action: Action, topic: string): Decision {
    const levels = topic.split('/');
    const rule = firstOf(this.ownOf(principal), action, (rule) => matches(rule.levels, levels));
    if (rule) return { allowed: rule.grants !== 0, rule, reason: '' };
    const patterns = this.patternsOf(principal);
    if (typeof patterns === 'string') return denied(patterns);
    const pattern = firstOf(patterns, action, (rule) => matches(rule.levels, levels));
    return pattern ? { allowed: pattern.grants !== 0, rule: pattern, reason: '' } : denied(NO_LINE);
  }

  /**
   * Whether there can be a topic that the filter matches and the client may read. In doubt there can: a filter is only
   * said to be denied where no line that grants meets it, or one that denies covers all of it.
   */
  decideFilter(principal: Principal, filter: string): Decision {
    const levels = filter.split('/');
    const patterns = this.patternsOf(principal);
    const denies: Rule[] = [];
    for (const rules of [this.ownOf(principal), typeof patterns === 'string' ? [] : patterns]) {
      denies.push(...rules.filter(({ grants }) => grants === 0));
      const deny = denies.find((rule) => covers(rule.levels, levels));
      if (deny) return { allowed: false, rule: deny, reason: '' };
      const rule = rules.find(
        ({ grants, levels: granted }) =>
          (grants & READ) !== 0 && overlap(granted, levels) && !denies.some((deny) => covers(deny.levels, granted)),
      );
      if (rule) return { allowed: true, rule, reason: '' };
    }
    return denied(typeof patterns === 'string' ? patterns : NO_LINE);
  }

  private ownOf({ user }: Principal): readonly Rule[] {
    return user === null ? this.anonymous : (this.users.get(user) ?? []);
  }

  /** With the client's names filled in; or in words why none applies. */
  private patternsOf(principal: Principal): readonly Rule[] | string {
    const { user, clientId } = principal;
    if (this.patterns.length === 0) return NO_LINE;
    // Their own name in a pattern must not become a wildcard [CVE-2017-7650].
    if (/[+#]/.test(user ?? '')) return 'patterns do not apply to a user name with + or #';
    if (/[+#]/.test(clientId)) return 'patterns do not apply to a client id with + or #';
    return this.patterns.flatMap((rule) => {
      if (rule.needsUser && user === null) return [];
      const levels = filledIn(rule, principal);
      // A name that begins with $ must not open the topics of the server.
      return startsWithDollar(rule.levels) === startsWithDollar(levels) ? [{ ...rule, levels }] : [];
    });
  }

  private sectionOf(user: string): Rule[] {
    const known = this.users.get(user);
    if (known) return known;
    const section: Rule[] = [];
    this.users.set(user, section);
    return section;
  }
}

/** In words what is wrong with the line, or its rule. */
function parseRule(keyword: string, rest: string, line: number): Rule | string {
  if (keyword !== 'topic' && keyword !== 'pattern')
    return `expected topic, pattern or user at the beginning of the line, followed by a blank`;
  if (rest === '') return `${keyword} needs a topic`;
  const [, kind = '', filter = ''] = /^([^ ]+) +(.*)$/.exec(rest) ?? ['', 'readwrite', rest];
  const grants = GRANTS.get(kind);
  if (grants === undefined)
    return `expected read, write, readwrite or deny before a topic with a blank in it, found ${JSON.stringify(kind)}`;
  const topic = filter.trim();
  if (!isValidFilter(topic, WIDEST_TOPIC)) return `${JSON.stringify(topic)} is no topic filter`;
  const needsUser = keyword === 'pattern' && topic.includes('%u');
  return { line, text: `${keyword} ${kind} ${topic}`, grants, levels: topic.split('/'), needsUser };
}

/** A deny wins wherever it stands. */
function firstOf(rules: readonly Rule[], action: Action, isMatch: (rule: Rule) => boolean): Rule | undefined {
  let granting: Rule | undefined;
  for (const rule of rules) {
    if (rule.grants !== 0 && (granting || (rule.grants & action) === 0)) continue;
    if (!isMatch(rule)) continue;
    if (rule.grants === 0) return rule;
    granting = rule;
  }
  return granting;
}

/** A client id may contain slashes, and is then more than one level. */
function filledIn({ levels }: Rule, { user, clientId }: Principal): string[] {
  return levels
    .join('/')
    .replace(/%[cu]/g, (name) => (name === '%c' ? clientId : (user ?? name)))
    .split('/');
}

function denied(reason: string): Decision {
  return { allowed: false, rule: null, reason };
}
