import { type Command, Option } from 'commander';
import { readSecret, Secret } from '../config/secret.js';
import { browseServer, readNodes, type UaServer } from '../gateway/opcua-commissioning.js';
import { EXIT } from '../lib/errors.js';
import { silentLog } from '../lib/log.js';
import type { CliCommand } from './command.js';
import { integer, milliseconds } from './flags.js';

export const opcua: CliCommand = (program, act) => {
  const group = program.command('opcua').description('look at OPC UA servers before a gateway reads them');

  onServer(group.command('browse'))
    .description('list the nodes of a server; nothing is written')
    .option('--node <id>', 'where to begin, ns=2;s=Press or nsu=urn:press;s=Press', 'i=85')
    .option('--depth <levels>', 'levels below it', integer(1, 20), 3)
    .option('--max <nodes>', 'nodes at most', integer(1, 100_000), 1000)
    .action(
      act(async (io, url: string, flags: ServerFlags & { node: string; depth: number; max: number }) => {
        const bounds = { depthMax: flags.depth, nodesMax: flags.max };
        let count = 0;
        const more = await browseServer(serverOf(url, flags), flags.node, bounds, silentLog, (found) => {
          count++;
          const { node, name, kind, depth } = found;
          io.out(flags.json ? JSON.stringify(found) : `${'  '.repeat(depth - 1)}${name}  ${kind}  ${node}`);
        });
        io.err(`${count} nodes${more ? '; there are more, see --depth, --max and --node' : ''}`);
        return count > 0 ? EXIT.ok : EXIT.finding;
      }),
    );

  onServer(group.command('read'))
    .description('read nodes once')
    .argument('<node...>', 'ns=2;s=Speed or nsu=urn:press;s=Speed')
    .action(
      act(async (io, url: string, nodes: string[], flags: ServerFlags) => {
        const views = await readNodes(serverOf(url, flags), nodes, silentLog);
        for (const view of views) {
          const { node, type, value, quality, status, sourceTime } = view;
          const text = `${node}  ${type ?? '-'}  ${JSON.stringify(value)}  ${quality}  ${status}  ${sourceTime ?? '-'}`;
          io.out(flags.json ? JSON.stringify(view) : text);
        }
        return views.every(({ value }) => value !== null) ? EXIT.ok : EXIT.finding;
      }),
    );
};

interface ServerFlags {
  readonly mode: UaServer['mode'];
  readonly policy?: UaServer['policy'];
  readonly username?: string;
  readonly passwordFile?: string;
  readonly pki: string;
  readonly timeout: number;
  readonly json?: boolean;
}

function onServer(command: Command): Command {
  return command
    .argument('<url>', 'opc.tcp://HOST:4840')
    .addOption(
      new Option('--mode <mode>', 'security of the messages')
        .choices(['None', 'Sign', 'SignAndEncrypt'])
        .default('None'),
    )
    .addOption(
      new Option('--policy <policy>', 'security policy').choices([
        'None',
        'Basic256Sha256',
        'Aes128_Sha256_RsaOaep',
        'Aes256_Sha256_RsaPss',
      ]),
    )
    .option('--username <name>', 'user name; absent: anonymous')
    .option('--password-file <file>', 'file with the password')
    .option('--pki <folder>', "folder of certificates, opcua/ in a gateway's data folder", './data/opcua')
    .option('--timeout <duration>', 'time for one answer', milliseconds('10ms', '10m'), 5000)
    .option('--json', 'print JSON, one object a line');
}

function serverOf(url: string, { mode, policy, username, passwordFile, pki, timeout }: ServerFlags): UaServer {
  const password = passwordFile === undefined ? '' : readSecret(new Secret({ file: passwordFile }, '--password-file'));
  return {
    url,
    mode,
    policy: policy ?? (mode === 'None' ? 'None' : 'Basic256Sha256'),
    identity: username === undefined ? { kind: 'anonymous' } : { kind: 'user', username, password },
    pkiDir: pki,
    timeoutMs: timeout,
  };
}
