import type { Config } from './loader.js';

/** What the devices of every protocol have. */
interface Device {
  readonly groups: readonly { readonly tags: readonly object[] }[];
}

/** One line that lets an operator see whether this is the config that was meant. */
export function summaryOf({ kind, config }: Config): string {
  if (kind === 'ingest') {
    const { ingest, source, historian } = config;
    const { http } = ingest;
    const doors = [
      ...(source ? [`${source.topic} from ${source.url}`] : []),
      ...(http ? [`${http.tls ? 'HTTPS' : 'HTTP'} on ${http.listen}${http.path}`] : []),
    ];
    return `ingest ${ingest.id}: ${doors.join(' and ')} into ${historian.type}`;
  }
  const { gateway, broker, readers, upstream } = config;
  const devices = readers.flatMap((reader): readonly Device[] => reader.devices);
  const tags = devices.flatMap(({ groups }) => groups.flatMap((group) => group.tags));
  const counts = [
    counted(broker.listeners.length, 'listener'),
    counted(readers.length, 'reader'),
    counted(devices.length, 'device'),
    counted(tags.length, 'tag'),
  ];
  return `gateway ${gateway.id}: ${counts.join(', ')}, upstream ${upstream.url}`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
