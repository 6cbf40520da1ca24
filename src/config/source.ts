import { readFileSync } from 'node:fs';
import {
  type CST,
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  type ParsedNode,
  Parser,
  parseDocument,
  type Scalar,
  visit,
} from 'yaml';
import { messageOf, systemCodeOf } from '../lib/errors.js';
import { ConfigError, type Problem } from './problem.js';

/** A file this large is no config, but perhaps the spool by a slip of the pen. */
const FILE_BYTES_MAX = 16 * 2 ** 20;

/** Uses of one anchor: enough for a hall of equal machines, too few for a file that unfolds without end. */
const ALIASES_MAX = 10_000;

/** A config needs 8; what is deeper was never meant as one. */
const DEPTH_MAX = 50;

/** Syntax errors after these are mostly echoes of the first. */
const SYNTAX_ERRORS_MAX = 10;

export type Path = readonly PropertyKey[];

/** What a problem points at: the value, or its key. */
type Target = 'value' | 'key';

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'no permission to read it',
  EISDIR: 'it is a folder',
};

/** A YAML 1.2 file that remembers where everything in it stands. */
export class ConfigSource {
  readonly file: string;
  private readonly doc: Document.Parsed<ParsedNode>;
  private readonly lines: LineCounter;

  private constructor(file: string, doc: Document.Parsed<ParsedNode>, lines: LineCounter) {
    this.file = file;
    this.doc = doc;
    this.lines = lines;
  }

  /** Reads and parses the file; throws a `ConfigError` when there is no map of settings in it to look at. */
  static open(file: string): ConfigSource {
    const text = readText(file);
    const lines = new LineCounter();
    if (isTooDeep(text)) throw new ConfigError([fileProblem(file, 'the file is nested too deeply')]);
    const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
    const source = new ConfigSource(file, doc, lines);
    const problems = source.syntaxProblems();
    if (problems.length > 0) throw new ConfigError(problems);
    if (doc.contents === null || (isScalar(doc.contents) && doc.contents.value === null))
      throw new ConfigError([source.whole('the file is empty')]);
    if (!isMap(doc.contents)) throw new ConfigError([source.problem([], 'expected a map with the settings')]);
    return source;
  }

  /** The settings as plain data. */
  data(): Record<string, unknown> {
    try {
      return this.doc.toJS({ maxAliasCount: ALIASES_MAX });
    } catch (error) {
      throw new ConfigError([this.whole(messageOf(error))]);
    }
  }

  /** Every scalar that is a value, not a key, with its path; one behind an anchor is there once. */
  scalars(): { readonly path: Path; readonly scalar: Scalar }[] {
    const all: { path: Path; scalar: Scalar }[] = [];
    visit(this.doc, {
      Scalar: (key, scalar, around) => {
        if (key !== 'key') all.push({ path: pathOf([...around, scalar]), scalar });
      },
    });
    return all;
  }

  /** The scalar at a path, the one behind the anchor if an alias stands there, or undefined. */
  scalarAt(path: Path): Scalar | undefined {
    const { node, rest } = this.find(path);
    const scalar = isAlias(node) ? node.resolve(this.doc) : node;
    return rest === 0 && isScalar(scalar) ? scalar : undefined;
  }

  /** A problem at the value of `path`; where there is none, at the nearest thing around it. */
  problem(path: Path, message: string, target: Target = 'value', severity: Problem['severity'] = 'error'): Problem {
    const { node, pair, rest } = this.find(path);
    const key = pair?.key as Node | undefined;
    const empty = isScalar(node) && node.range?.[0] === node.range?.[1];
    const at = rest === 0 && key && (target === 'key' || empty) ? key : (node ?? key ?? this.doc.contents);
    return this.at(at?.range?.[0] ?? 0, path.map(String).join('.'), message, severity);
  }

  /** A problem of the file as a whole. */
  whole(message: string): Problem {
    return fileProblem(this.file, message);
  }

  private at(offset: number, path: string, message: string, severity: Problem['severity']): Problem {
    const { line, col } = this.lines.linePos(offset);
    return { file: this.file, line, col, path, message, severity };
  }

  /** Follows a path as far as the file goes: the last node, the pair it is the value of, and the steps left over. */
  private find(path: Path): { node: Node | null; pair: Pair | undefined; rest: number } {
    let node: Node | null = this.doc.contents;
    let pair: Pair | undefined;
    for (const [index, step] of path.entries()) {
      const around: Node | undefined = isAlias(node) ? node.resolve(this.doc) : (node ?? undefined);
      const next: Pair | undefined = isMap(around)
        ? around.items.find((item) => isScalar(item.key) && item.key.value === step)
        : undefined;
      const child: unknown = next ? next.value : isSeq(around) ? around.items[Number(step)] : undefined;
      if (!next && child === undefined) return { node, pair, rest: path.length - index };
      node = child as Node | null;
      pair = next;
    }
    return { node, pair, rest: 0 };
  }

  private syntaxProblems(): Problem[] {
    const { errors, warnings, directives } = this.doc;
    const faults = [...errors, ...warnings].map(({ code, message, pos }) =>
      this.at(pos[0], '', code === 'MULTIPLE_DOCS' ? 'expected one document, found another one' : message, 'error'),
    );
    if (directives.yaml.explicit && directives.yaml.version !== '1.2')
      return [this.at(0, '', `expected YAML 1.2, found YAML ${directives.yaml.version}`, 'error')];
    visit(this.doc, {
      Alias: (_, node) => {
        if (node.resolve(this.doc) !== undefined) return;
        faults.push(this.at(node.range?.[0] ?? 0, '', `there is no anchor &${node.source} above`, 'error'));
      },
    });
    return faults.slice(0, SYNTAX_ERRORS_MAX);
  }
}

/**
 * Whether lists and maps stand in each other deeper than `DEPTH_MAX`. Asked before parsing, because the parser descends
 * by recursion, and a process at the end of its stack dies instead of throwing.
 */
function isTooDeep(text: string): boolean {
  let level: CST.Token[] = [...new Parser().parse(text)];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEPTH_MAX) return true;
    level = level.flatMap((token) => {
      if (token.type === 'document') return token.value ?? [];
      return 'items' in token ? token.items.flatMap(({ key, value }) => [key ?? [], value ?? []].flat()) : [];
    });
  }
  return false;
}

/** Keys and positions on the way from the top through nested nodes. */
function pathOf(nodes: readonly unknown[]): Path {
  return nodes.flatMap((node, index): PropertyKey[] => {
    if (isPair(node)) return [(node.key as Scalar).value as string];
    return isSeq(node) ? [node.items.indexOf(nodes[index + 1])] : [];
  });
}

function fileProblem(file: string, message: string): Problem {
  return { file, line: null, col: null, path: '', message, severity: 'error' };
}

function readText(file: string): string {
  const whole = (message: string) => new ConfigError([fileProblem(file, message)]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw whole(`cannot be read: ${UNREADABLE[systemCodeOf(error) ?? ''] ?? messageOf(error)}`);
  }
  if (bytes.length > FILE_BYTES_MAX) throw whole(`is larger than ${FILE_BYTES_MAX} bytes; is it a config?`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw whole('is not UTF-8; is it a text file?');
  }
}
