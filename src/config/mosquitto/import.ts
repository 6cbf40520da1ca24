/**
 * A `mosquitto.conf` as the config of a gateway. Password and ACL files are named by their path and not touched, so the
 * way back stays open. Nothing becomes more open than it was: what cannot be as safe is left out, and every line is
 * accounted for.
 */
import { stringify } from 'yaml';
import { draftBridge } from './bridge.js';
import { type Directive, readConf } from './conf-file.js';
import { draftGeneral } from './general.js';
import { draftListener, type ListenerDraft } from './listeners.js';
import { type Note, Notes } from './notes.js';
import { type Section, sort } from './sections.js';
import { type Security, securityOf } from './security.js';
import { literal } from './values.js';

export interface Imported {
  readonly yaml: string;
  readonly notes: readonly Note[];
}

export interface ImportOptions {
  /** The gateway's id; by default made of the name of the bridge. */
  readonly id?: string | undefined;
  /** The upstream's URL where there is no bridge. */
  readonly upstream?: string | undefined;
}

const NO_BRIDGE_URL = 'mqtts://cloud.example.com:8883';
const ID_CHARS_MAX = 64;

/** Throws `config.invalid` when a file cannot be read. */
export function importMosquitto(file: string, { id, upstream }: ImportOptions = {}): Imported {
  const notes = new Notes();
  const directives = readConf(file);
  const sections = sort(directives);
  const security = securityOf(sections, notes);
  const listeners = sections.listeners.flatMap((section) => listenerOf(section, security, notes));
  const [bridge, ...others] = sections.bridges.map((section) => ({ section, draft: draftBridge(section, notes) }));
  for (const { section } of others)
    if (section.opening) notes.unsupported(section.opening, 'there is one upstream, that of the first connection');
  const { broker, log } = draftGeneral(sections.general, notes);
  if (!bridge?.draft && !upstream)
    notes.byDefault('connection', `upstream.url is ${NO_BRIDGE_URL}: put your own there, or use --upstream`);
  accountForAll(directives, notes);
  const { passwordFile, aclFile } = security;
  const config = {
    gateway: { id: id ?? idOf(bridge?.section) },
    ...(Object.keys(log).length > 0 ? { log } : {}),
    broker: { listeners, ...(passwordFile ? { passwordFile } : {}), ...(aclFile ? { aclFile } : {}), ...broker },
    ...(bridge?.draft && bridge.draft.topics.length > 0 ? { bridge: { topics: bridge.draft.topics } } : {}),
    upstream: bridge?.draft?.upstream ?? { url: literal(upstream ?? NO_BRIDGE_URL) },
  };
  const head = `# Made from ${file} by holdfast import mosquitto.\n\n`;
  return { yaml: head + stringify(config, { lineWidth: 0 }), notes: inOrder(notes.all, directives) };
}

/** No line may go without a word. */
function accountForAll(directives: readonly Directive[], notes: Notes): void {
  const told = new Set(notes.all.map(({ file, line }) => `${file}:${line}`));
  for (const [index, directive] of directives.entries()) {
    const { file, line, name } = directive;
    if (told.has(`${file}:${line}`)) continue;
    if (directives.slice(index + 1).some((later) => later.name === name)) notes.kept(directive, 'a later line counts');
    else notes.unsupported(directive, 'has no effect here');
  }
}

function listenerOf(section: Section, security: Security, notes: Notes): ListenerDraft[] {
  const draft = draftListener(section, notes);
  if (!draft || security.isUnknown) return [];
  if (security.isForeign(section)) {
    if (section.opening)
      notes.unsupported(section.opening, 'its files are not those of all listeners, so it is left out');
    return [];
  }
  const anonymous = security.anonymousAt(section);
  const { tls, ...others } = draft;
  return [{ ...others, ...(anonymous && !tls?.userFromCertificate ? { anonymous } : {}), ...(tls ? { tls } : {}) }];
}

function idOf(section: Section | undefined): string {
  const name = section?.opening?.value.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, ID_CHARS_MAX);
  return name || 'gateway-1';
}

/** As the lines take effect, what nobody said at the end. */
function inOrder(notes: readonly Note[], directives: readonly Directive[]): Note[] {
  const places = new Map(directives.map(({ file, line }, index) => [`${file}:${line}`, index]));
  const rank = ({ file, line }: Note) => places.get(`${file}:${line}`) ?? directives.length;
  return [...notes].sort((a, b) => rank(a) - rank(b));
}
