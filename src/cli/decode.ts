import { createReadStream } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { EXIT, HoldfastError, messageOf } from '../lib/errors.js';
import { decodeBatch } from '../wire/decode.js';
import { rowJson } from '../wire/rows.js';
import type { CliCommand } from './command.js';

export const decode: CliCommand = (program, act) => {
  program
    .command('decode')
    .description('print the rows of a batch, in any of its forms, as NDJSON')
    .argument('[file]', 'the bytes of one batch; - is standard input', '-')
    .action(
      act(async (io, file: string) => {
        const batch = decodeBatch(await read(file));
        for (const row of batch.rows) io.out(rowJson(batch.source, row, 'text'));
        for (const { from, to, reason } of batch.lost) io.err(`lost: seq ${from} to ${to}, ${reason}`);
        return EXIT.ok;
      }),
    );
};

async function read(file: string): Promise<Buffer> {
  try {
    return await buffer(file === '-' ? process.stdin : createReadStream(file));
  } catch (cause) {
    throw new HoldfastError('usage.invalid', `Cannot read ${file}: ${messageOf(cause)}`, { values: { file }, cause });
  }
}
