import { parseModbusAddress } from '../model/modbus-address.js';
import { collide, type Endpoint, reaches, tryEndpoint } from './address.js';
import type { Path } from './source.js';

/** What the schema cannot see because it takes two places to see it. */
interface Finding {
  readonly path: Path;
  readonly message: string;
}

/**
 * Contradictions between the parts of a config. They work on the file's plain data, before defaults and whatever else is
 * wrong with it, so that one mistake in a tag does not hide another one elsewhere.
 */
export function crossCheck(data: unknown): Finding[] {
  return [...portsTakenTwice(data), ...metricsNamedTwice(data), ...plcNotation(data), ...upstreamToItself(data)];
}

function* portsTakenTwice(data: unknown): Generator<Finding> {
  const taken: { path: Path; endpoint: Endpoint }[] = [];
  for (const pattern of ['broker.listeners.*.url', 'ingest.http.listen', 'web.listen'])
    for (const { path, value } of select(data, pattern)) {
      const endpoint = tryEndpoint(value);
      if (!endpoint) continue;
      const other = taken.find((earlier) => collide(earlier.endpoint, endpoint));
      if (other) yield { path, message: `port ${endpoint.port} is already taken by ${other.path.join('.')}` };
      taken.push({ path, endpoint });
    }
}

/** A reading is known by asset, metric and time; two tags of one name would overwrite each other in the historian. */
function* metricsNamedTwice(data: unknown): Generator<Finding> {
  const named = new Map<string, Path>();
  for (const { path, value: device } of select(data, 'readers.*.devices.*'))
    for (const tag of select(device, 'groups.*.tags.*.name')) {
      const asset = keyOf(device, 'asset');
      if (typeof asset !== 'string' || typeof tag.value !== 'string') continue;
      const key = `${asset}/${tag.value}`;
      const at = [...path, ...tag.path];
      const other = named.get(key);
      if (other) yield { path: at, message: `${key} is already read by ${other.slice(0, -1).join('.')}` };
      else named.set(key, at);
    }
}

function* plcNotation(data: unknown): Generator<Finding> {
  for (const { path, value: device } of select(data, 'readers.*.devices.*')) {
    if (keyOf(device, 'addressing') === 'plc1') continue;
    for (const tag of select(device, 'groups.*.tags.*.at')) {
      if (typeof tag.value !== 'string' && !Number.isInteger(tag.value)) continue;
      const at = parseModbusAddress(String(tag.value));
      if (typeof at === 'string' || !at.plc) continue;
      const message = `the notation ${tag.value} needs addressing: plc1 at the device; without it write "${at.canonical}"`;
      yield { path: [...path, ...tag.path], message };
    }
  }
}

/** The own broker would acknowledge every batch, and the spool would let go of what no cloud has seen. */
function* upstreamToItself(data: unknown): Generator<Finding> {
  for (const upstream of select(data, 'upstream.url'))
    for (const listener of select(data, 'broker.listeners.*.url')) {
      const [target, own] = [tryEndpoint(upstream.value), tryEndpoint(listener.value)];
      if (target && own && reaches(target, own))
        yield { path: upstream.path, message: `leads back to this gateway, ${listener.path.join('.')}` };
    }
}

/** Every value that a pattern of keys leads to, `*` standing for each item of a list. */
function* select(data: unknown, pattern: string): Generator<{ path: Path; value: unknown }> {
  const [step, ...rest] = pattern.split('.') as [string, ...string[]];
  const keys = step !== '*' ? [step] : Array.isArray(data) ? data.keys() : [];
  for (const key of keys) {
    const value = keyOf(data, key);
    if (value === undefined) continue;
    if (rest.length === 0) yield { path: [key], value };
    else for (const deeper of select(value, rest.join('.'))) yield { path: [key, ...deeper.path], value: deeper.value };
  }
}

function keyOf(data: unknown, key: string | number): unknown {
  return typeof data === 'object' && data !== null ? (data as Record<PropertyKey, unknown>)[key] : undefined;
}
