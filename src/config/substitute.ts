import type { Scalar } from 'yaml';
import type { Problem } from './problem.js';
import type { ConfigSource, Path } from './source.js';

/** `$${` is a literal `${`; otherwise a name, and a default behind `:-`. */
const VARIABLE = /\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?/g;

const HOW_TO_WRITE = `expected \${NAME} or \${NAME:-default}; a literal \${ is written $\${`;

/** Texts that read as a number (YAML 1.2 core schema, decimal only). */
const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;

/**
 * Environment variables in the values of a config, put in after parsing: what a variable holds can never become a key,
 * a list or a comment.
 */
export class Substitution {
  readonly problems: Problem[] = [];
  private readonly filled = new Set<Scalar>();
  private readonly failed = new Set<Scalar>();
  private readonly source: ConfigSource;

  constructor(source: ConfigSource) {
    this.source = source;
  }

  /** Replaces `${VAR}` and, for a variable that is unset or empty, `${VAR:-default}`. An unset `${VAR}` is a problem. */
  run(env: NodeJS.ProcessEnv): void {
    for (const { path, scalar } of this.source.scalars()) {
      if (typeof scalar.value !== 'string' || !scalar.value.includes('${')) continue;
      const complain = (message: string) => {
        this.failed.add(scalar);
        this.problems.push(this.source.problem(path, message));
      };
      scalar.value = scalar.value.replace(VARIABLE, (whole, name?: string, fallback?: string) => {
        if (whole === '$${') return '${';
        this.filled.add(scalar);
        if (name === undefined) complain(HOW_TO_WRITE);
        else if (fallback !== undefined) return env[name] || fallback;
        else if (env[name] === undefined) complain(`the environment variable ${name} is not set`);
        return env[name ?? ''] ?? '';
      });
    }
  }

  /** Whether the value at `path` came, at least in part, from the environment. */
  has(path: Path): boolean {
    return this.in(this.filled, path);
  }

  /** Whether the value at `path` is a problem already, so that what the schema says about it is an echo. */
  hasFailed(path: Path): boolean {
    return this.in(this.failed, path);
  }

  /**
   * Gives the scalar at `path` the number or truth value that it reads as. A variable is a text until the schema has said
   * that it wants something else there, so that a password of digits stays a text. True if that changed something.
   */
  retype(path: Path): boolean {
    const scalar = this.source.scalarAt(path);
    if (!scalar || !this.filled.has(scalar) || typeof scalar.value !== 'string') return false;
    if (NUMBER.test(scalar.value)) scalar.value = Number(scalar.value);
    else if (scalar.value === 'true' || scalar.value === 'false') scalar.value = scalar.value === 'true';
    else return false;
    return true;
  }

  private in(set: ReadonlySet<Scalar>, path: Path): boolean {
    const scalar = this.source.scalarAt(path);
    return scalar !== undefined && set.has(scalar);
  }
}
