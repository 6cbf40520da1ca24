/** Users and rights. Where Mosquitto had them by listener, the listeners that share one set of files are taken over. */
import { basename } from 'node:path';
import type { Directive } from './conf-file.js';
import type { Notes } from './notes.js';
import { isTrue, last, type Section, type Sections } from './sections.js';
import { lookUp, pathOf } from './values.js';

export interface Security {
  readonly passwordFile?: string;
  readonly aclFile?: string;
  /** A plugin decides who may do what: without it every listener would be open. */
  readonly isUnknown: boolean;
  anonymousAt(section: Section): boolean;
  /** It has other files than those that are taken. */
  isForeign(section: Section): boolean;
}

/** Plugins of Mosquitto 2.1 that read the files that 2.0 reads by itself. */
const FILE_PLUGINS: Readonly<Record<string, string>> = {
  'mosquitto_password_file.so': 'plugin_opt_password_file',
  'mosquitto_acl_file.so': 'plugin_opt_acl_file',
};
const STORAGE_PLUGINS: ReadonlySet<string> = new Set(['mosquitto_persist_sqlite.so']);

export function securityOf({ general, listeners, perListener }: Sections, notes: Notes): Security {
  const scopes = perListener ? listeners.map(({ lines }) => lines) : [general];
  const isUnknown = [...new Set([general, ...scopes])].flatMap((lines) => pluginsOf(lines, notes)).length > 0;
  const passwords = scopes.map((lines) => last(lines, 'password_file') ?? last(lines, 'plugin_opt_password_file'));
  const rules = scopes.map((lines) => last(lines, 'acl_file') ?? last(lines, 'plugin_opt_acl_file'));
  const [passwordLine, aclLine] = [passwords, rules].map((lines) => lines.find((line) => line !== undefined));
  for (const line of [...passwords, ...rules]) {
    const taken = [passwordLine, aclLine].some((first) => first?.value === line?.value);
    if (line && taken) notes.kept(line, 'stays where it is, read as it is');
    else if (line) notes.unsupported(line, 'there is one such file for all listeners');
  }
  const anyNamed = listeners.some(
    ({ opening, lines }) => opening || last(lines, 'port') || last(lines, 'bind_address'),
  );
  for (const lines of scopes) for (const line of lines) small(line, notes);
  return {
    ...(passwordLine ? { passwordFile: pathOf(passwordLine) } : {}),
    ...(aclLine ? { aclFile: pathOf(aclLine) } : {}),
    isUnknown,
    anonymousAt: ({ lines }) => {
      const said = last(lines, 'listener_allow_anonymous') ?? last(perListener ? lines : general, 'allow_anonymous');
      return said ? isTrue(said) : !anyNamed;
    },
    isForeign: (section) => {
      const index = listeners.indexOf(section);
      const differs = (mine: Directive | undefined, taken: Directive | undefined) =>
        mine && mine.value !== taken?.value;
      return perListener && Boolean(differs(passwords[index], passwordLine) || differs(rules[index], aclLine));
    },
  };
}

/** The plugins that are not understood. */
function pluginsOf(lines: readonly Directive[], notes: Notes): Directive[] {
  return lines.filter((line) => {
    if (!['plugin', 'auth_plugin', 'global_plugin', 'plugin_load'].includes(line.name)) return false;
    const file = basename(line.value.split(' ').at(-1) ?? '');
    if (lookUp(FILE_PLUGINS, file)) notes.kept(line, 'its file is read without it');
    else if (STORAGE_PLUGINS.has(file))
      notes.changed(line, 'not needed: everything is kept in the spool, synchronously');
    else {
      notes.unsupported(line, 'what the plugin decides would be open to everybody, so all listeners are left out');
      return true;
    }
    return false;
  });
}

function small(line: Directive, notes: Notes): void {
  const { name, value } = line;
  if (name === 'allow_anonymous') notes.kept(line, `anonymous: ${value === 'true'}`);
  else if (name === 'allow_zero_length_clientid')
    if (value === 'false') notes.unsupported(line, 'a client without an id gets one');
    else notes.kept(line, 'is so');
  else if (name === 'auto_id_prefix') notes.changed(line, 'client ids that the broker gives begin with holdfast-');
  else if (name === 'psk_file') notes.unsupported(line, 'there are no pre-shared keys; give clients certificates');
  else if (/^(plugin_opt_|auth_opt_|auth_plugin_deny|plugin_use)/.test(name) && !/_(password|acl)_file$/.test(name))
    notes.unsupported(line, 'belongs to a plugin');
}
