import * as z from 'zod';

/**
 * What a value is beyond its type. The loader resolves paths and names secrets by it, and `config show` prints durations
 * and sizes back in units, all without a second list of keys beside the schema.
 */
export type Kind = 'duration' | 'size' | 'path' | 'secret';

const kinds = z.registry<{ kind: Kind }>();

/** Marks a schema; the mark stays on whatever `.describe()`, `.optional()` or `.prefault()` make of it. */
export function ofKind<S extends z.core.$ZodType>(kind: Kind, schema: S): S {
  kinds.add(schema, { kind });
  return schema;
}

type Replace = (kind: Kind, value: unknown, path: readonly (string | number)[]) => unknown;

/** A copy of `value`, the output of `schema`, in which every value of a marked schema went through `replace`. */
export function mapKinds(
  schema: z.core.$ZodType,
  value: unknown,
  replace: Replace,
  path: readonly (string | number)[] = [],
): unknown {
  const { kind } = peel(schema);
  if (kind && value !== undefined) return replace(kind, value, path);
  const inside = (item: unknown, step: string | number) => {
    const member = memberOf(schema, value, step);
    return member ? mapKinds(member, item, replace, [...path, step]) : item;
  };
  if (Array.isArray(value)) return value.map(inside);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inside(item, key)]));
}

/** The keys that the schema knows in the map at `path` of `value`. */
export function knownKeys(schema: z.core.$ZodType, value: unknown, path: readonly PropertyKey[]): string[] {
  const [step, ...rest] = path;
  if (step === undefined) {
    const { def } = coreOf(schema, value)._zod;
    return def.type === 'object' ? Object.keys(def.shape) : [];
  }
  const member = memberOf(schema, value, step);
  return member ? knownKeys(member, (value as Record<PropertyKey, unknown>)[step], rest) : [];
}

/** The schema of one key or item of `value`. */
function memberOf(schema: z.core.$ZodType, value: unknown, step: PropertyKey): z.core.$ZodType | undefined {
  const { def } = coreOf(schema, value)._zod;
  if (def.type === 'array') return def.element;
  return def.type === 'object' ? def.shape[step as string] : undefined;
}

/** The schema that describes `value` itself: without wrappers, and of a discriminated union the member it belongs to. */
function coreOf(schema: z.core.$ZodType, value: unknown): z.core.$ZodTypes {
  const { core } = peel(schema);
  const { def } = core._zod;
  const { discriminator } = def as Partial<z.core.$ZodDiscriminatedUnionDef>;
  if (def.type !== 'union' || discriminator === undefined) return core;
  const tag = (value as Record<string, z.core.util.Primitive>)[discriminator];
  const option = def.options.find((option) => option._zod.propValues?.[discriminator]?.has(tag));
  return option ? peel(option).core : core;
}

/** Takes off what `.optional()`, `.prefault()` and `.transform()` put around a schema, and finds the mark on the way. */
function peel(schema: z.core.$ZodType): { kind: Kind | undefined; core: z.core.$ZodTypes } {
  for (let layer = schema as z.core.$ZodTypes; ; ) {
    const kind = kinds.get(layer)?.kind;
    const { def } = layer._zod;
    if (kind) return { kind, core: layer };
    if ('innerType' in def) layer = def.innerType as z.core.$ZodTypes;
    else if (def.type === 'pipe') layer = def.in as z.core.$ZodTypes;
    else return { kind: undefined, core: layer };
  }
}
