import { execFileSync } from 'node:child_process';

/**
 * The path of a real peer program, or undefined when it is not installed. With HOLDFAST_REQUIRE_PEERS=1 an absent peer
 * is an error, so that CI cannot pass by skipping.
 *
 *     const mosquitto = peer('mosquitto');
 *     test('…', { skip: mosquitto ? false : 'mosquitto is not installed' }, …)
 */
export function peer(program: string): string | undefined {
  for (const dir of [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/usr/local/sbin']) {
    const path = `${dir}/${program}`;
    try {
      execFileSync('test', ['-x', path]);
      return path;
    } catch {}
  }
  if (process.env.HOLDFAST_REQUIRE_PEERS === '1')
    throw new Error(`HOLDFAST_REQUIRE_PEERS=1, but ${program} is not installed`);
  return undefined;
}

/** Like `peer` for a program that must also pass a check, such as a Python with a module. */
export function peerWith(path: string, check: readonly string[], what: string): { path: string; skip: false | string } {
  try {
    execFileSync(path, check, { stdio: 'ignore' });
    return { path, skip: false };
  } catch {
    if (process.env.HOLDFAST_REQUIRE_PEERS === '1')
      throw new Error(`HOLDFAST_REQUIRE_PEERS=1, but ${what} is not installed`);
    return { path, skip: `${what} is not installed` };
  }
}
