import { Argument } from 'commander';
import { explainAccess } from '../gateway/access.js';
import { EXIT, HoldfastError } from '../lib/errors.js';
import type { CliCommand } from './command.js';

interface Flags {
  readonly acl: string;
  readonly user?: string;
  readonly client: string;
  readonly json?: boolean;
}

const ACTIONS = ['read', 'write', 'subscribe'] as const;

export const acl: CliCommand = (program, act) => {
  const group = program.command('acl').description("ask an ACL file of Mosquitto's form what it means");
  group
    .command('test')
    .description('may this client read or write the topic, and which line says so? Ends with 1 when it may not')
    .argument('<topic>', 'a topic; of subscribe a filter')
    .addArgument(
      new Argument('<action>', 'what the client does; subscribe: can it read anything there?').choices(ACTIONS),
    )
    .requiredOption('--acl <file>', 'ACL file')
    .option('--user <name>', 'user; without it an anonymous client')
    .option('--client <id>', 'client id, for patterns with %c', 'client')
    .option('--json', 'print {allowed, file, line, text, reason}')
    .action(
      act(async (io, topic: string, action: (typeof ACTIONS)[number], flags: Flags) => {
        if (action !== 'subscribe' && (topic === '' || /[+#]/.test(topic)))
          throw new HoldfastError('usage.invalid', `${JSON.stringify(topic)} is no topic: rights are asked for one`);
        const question = { aclFile: flags.acl, user: flags.user, clientId: flags.client, topic, action };
        const { allowed, rule, reason } = await explainAccess(question);
        const why = rule ? `${flags.acl}:${rule.line}: ${rule.text}` : reason;
        if (flags.json) {
          const { line = null, text = null } = rule ?? {};
          io.out(JSON.stringify({ allowed, file: flags.acl, line, text, reason: rule ? null : reason }));
        } else io.out(`${allowed ? 'allowed' : 'denied'}: ${why}`);
        return allowed ? EXIT.ok : EXIT.finding;
      }),
    );
};
