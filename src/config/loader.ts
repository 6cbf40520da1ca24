import { dirname, resolve } from 'node:path';
import type * as z from 'zod';
import { crossCheck } from './cross-checks.js';
import { didYouMean, explain } from './explain.js';
import { type GatewayConfig, gatewaySchema } from './gateway-schema.js';
import { type IngestConfig, ingestSchema } from './ingest-schema.js';
import { knownKeys, mapKinds } from './kinds.js';
import { ConfigError, type Problem } from './problem.js';
import { Secret } from './secret.js';
import { ConfigSource, type Path } from './source.js';
import { Substitution } from './substitute.js';
import { gatewayWarnings, ingestWarnings, secretWarnings, type Warning } from './warnings.js';

export type Config =
  | { readonly kind: 'gateway'; readonly config: GatewayConfig }
  | { readonly kind: 'ingest'; readonly config: IngestConfig };

/** A config that may be used, and what is doubtful in it. */
export type Checked = Config & { readonly warnings: readonly Problem[] };

/**
 * Loads a config file of either kind: YAML 1.2, `${VAR}` filled in, defaults filled in, paths made absolute from the
 * folder of the file. Throws a `ConfigError` with everything that is wrong with it. Nothing but this file is read, and
 * nothing is written: a wrong config cannot harm the spool.
 */
export function checkConfig(file: string): Checked {
  const source = ConfigSource.open(file);
  return kindOf(source) === 'gateway' ? checkGateway(source) : checkIngest(source);
}

/** Loads a gateway's config as `checkConfig` does; throws a `ConfigError`. */
export function loadGatewayConfig(file: string): GatewayConfig {
  return checkGateway(openAs(file, 'gateway')).config;
}

/** Loads an ingest's config as `checkConfig` does; throws a `ConfigError`. */
export function loadIngestConfig(file: string): IngestConfig {
  return checkIngest(openAs(file, 'ingest')).config;
}

function openAs(file: string, wanted: Config['kind']): ConfigSource {
  const source = ConfigSource.open(file);
  const kind = kindOf(source);
  if (kind !== wanted)
    throw new ConfigError([source.whole(`expected the config of the ${wanted}, found one of the ${kind}`)]);
  return source;
}

/** By its own key, or where that one is missing by what else is there, so that all the errors can be told. */
function kindOf(source: ConfigSource): Config['kind'] {
  const data = source.data();
  if ('gateway' in data) return 'gateway';
  return ['ingest', 'source', 'historian'].some((key) => key in data) ? 'ingest' : 'gateway';
}

function checkGateway(source: ConfigSource): Extract<Checked, { kind: 'gateway' }> {
  const { config, literals } = validate(source, gatewaySchema);
  return { kind: 'gateway', config, warnings: told(source, literals, gatewayWarnings(config)) };
}

function checkIngest(source: ConfigSource): Extract<Checked, { kind: 'ingest' }> {
  const { config, literals } = validate(source, ingestSchema);
  return { kind: 'ingest', config, warnings: told(source, literals, ingestWarnings(config)) };
}

function validate<S extends z.ZodType>(source: ConfigSource, schema: S): { config: z.output<S>; literals: Path[] } {
  const variables = new Substitution(source);
  variables.run(process.env);
  let data = source.data();
  let parsed = schema.safeParse(data, { error: explain });
  const retyped = parsed.error?.issues.filter((issue) => wantsAnotherType(issue) && variables.retype(issue.path)) ?? [];
  if (retyped.length > 0) {
    data = source.data();
    parsed = schema.safeParse(data, { error: explain });
  }

  const issues = parsed.error?.issues.filter(({ path }) => !variables.hasFailed(path)) ?? [];
  const problems = [
    ...variables.problems,
    ...issues.flatMap((issue) => problemsOf(source, schema, data, issue)),
    ...crossCheck(data).map(({ path, message }) => source.problem(path, message)),
  ];
  if (parsed.error || problems.length > 0) throw new ConfigError(inOrder(problems));

  const folder = dirname(resolve(source.file));
  const literals: Path[] = [];
  const config = mapKinds(schema, parsed.data, (kind, value, path) => {
    if (kind === 'path') return resolve(folder, value as string);
    if (!(value instanceof Secret)) return value;
    if (value.literal && !variables.has(path)) literals.push(path);
    return value.at(path.join('.'), folder);
  });
  return { config: config as z.output<S>, literals };
}

function wantsAnotherType({ code }: z.core.$ZodIssue): boolean {
  return code === 'invalid_type' || code === 'invalid_value';
}

function problemsOf(source: ConfigSource, schema: z.ZodType, data: unknown, issue: z.core.$ZodIssue): Problem[] {
  if (issue.code !== 'unrecognized_keys') return [source.problem(issue.path, issue.message)];
  const known = knownKeys(schema, data, issue.path);
  return issue.keys.map((key) =>
    source.problem([...issue.path, key], `unknown key ${JSON.stringify(key)}${didYouMean(key, known)}`, 'key'),
  );
}

function told(source: ConfigSource, literals: readonly Path[], warnings: Iterable<Warning>): Problem[] {
  const all = [...warnings, ...secretWarnings(source.file, literals)];
  return inOrder(all.map(({ path, message }) => source.problem(path, message, 'value', 'warning')));
}

function inOrder(problems: readonly Problem[]): Problem[] {
  return [...problems].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.col ?? 0) - (b.col ?? 0));
}
