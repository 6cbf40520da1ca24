import { HoldfastError, messageOf } from '../lib/errors.js';
import { parseCsv } from './csv.js';
import { explain } from './explain.js';
import { type ModbusReaderConfig, reader as readerSchema } from './reader-schema.js';
import { kepwareTag } from './tag-import-kepware.js';
import { plainTag } from './tag-import-plain.js';

export interface TagImportOptions {
  /** For rows that do not name a device. */
  readonly asset: string;
  readonly unit: number;
  /** Where plain numbers count from: 40001 or 40000 for the first holding register. */
  readonly base: 0 | 1;
  /** The link, for the check of the whole and for its plan. */
  readonly url: string;
}

export interface TagImport {
  /** As they are written into a config, by device and pace. */
  readonly devices: readonly object[];
  /** The same as a reader's checked config. */
  readonly reader: ModbusReaderConfig;
  readonly tags: number;
  /** Tags that may be written where they come from; here that is off until somebody allows it. */
  readonly writable: number;
}

/**
 * Reads a list of tags from CSV: columns `device, unit, tag, address, type, order, scale, offset, interval, deadband, access,
 * enum, length, invalid, unit_text`, of which tag, address and type are needed; or an export of Kepware (`Tag Name,
 * Address, Data Type, …`). Nothing is left out quietly: throws `config.invalid` with every row that cannot be taken, by its line.
 */
export function importTags(text: string, options: TagImportOptions): TagImport {
  const problems: string[] = [];
  const { columns, rows } = table(text);
  const toTag = columns.includes('tag name') ? kepwareTag : columns.includes('tag') ? plainTag : undefined;
  if (!toTag) throw invalid(['line 1: expected a column "tag", or "Tag Name" of a Kepware export']);
  const devices = new Map<
    string,
    { device: Record<string, unknown>; groups: Map<string, { tags: object[]; lines: number[] }> }
  >();
  let writable = 0;
  for (const row of rows) {
    try {
      const imported = toTag(row, options.base);
      if (imported.writable) writable++;
      const { asset = options.asset, unit = options.unit, every } = imported;
      const entry = devices.get(asset) ?? { device: { asset, unit, addressing: 'plc1' }, groups: new Map() };
      if (entry.device.unit !== unit) throw new Error(`${asset} has the units ${entry.device.unit} and ${unit}`);
      devices.set(asset, entry);
      const group = entry.groups.get(every) ?? { tags: [], lines: [] };
      entry.groups.set(every, group);
      group.tags.push(imported.tag);
      group.lines.push(row.line);
    } catch (error) {
      problems.push(`line ${row.line}: ${messageOf(error)}`);
    }
  }
  const entries = [...devices.values()];
  const result = entries.map(({ device, groups }) => ({
    ...device,
    groups: [...groups].map(([every, { tags }]) => ({
      every,
      ...(hasDeadband(tags) ? { report: 'change' } : {}),
      tags,
    })),
  }));
  const checked = readerSchema.safeParse({ type: 'modbus', url: options.url, devices: result }, { error: explain });
  for (const { path, message } of checked.error?.issues ?? []) {
    const [, d, , g, , t, ...key] = path as [string, number, string, number, string, number, ...PropertyKey[]];
    const line = [...(entries[d]?.groups.values() ?? [])][g]?.lines[t];
    problems.push(`${line === undefined ? path.join('.') : `line ${line}: ${key.join('.')}`}: ${message}`);
  }
  if (problems.length > 0 || checked.data?.type !== 'modbus') throw invalid(problems);
  return { devices: result, reader: checked.data, tags: rows.length, writable };
}

function table(text: string): ReturnType<typeof parseCsv> {
  try {
    return parseCsv(text);
  } catch (error) {
    throw invalid([messageOf(error)]);
  }
}

const hasDeadband = (tags: readonly object[]): boolean => tags.some((tag) => 'deadband' in tag);

function invalid(problems: readonly string[]): HoldfastError {
  return new HoldfastError('config.invalid', `the tags cannot be imported\n${problems.join('\n')}`, {
    values: { problems },
  });
}
