/** Works out argon2id hashes, one after the other: the message port is the queue. */
import { parentPort } from 'node:worker_threads';
import { argon2id } from 'hash-wasm';
import { assert } from '../lib/assert.js';
import { messageOf } from '../lib/errors.js';
import type { Argon2Reply, Argon2Request } from './argon2.js';

const port = parentPort;
assert(port, 'the argon2 worker runs in a worker thread');

let last: Promise<void> = Promise.resolve();
port.on('message', (request: Argon2Request) => {
  // Two at a time would need twice the memory and be no faster.
  last = last.then(async () => port.postMessage(await answer(request)));
});

async function answer({
  id,
  password,
  salt,
  memoryKiB,
  passes,
  lanes,
  hashBytes,
}: Argon2Request): Promise<Argon2Reply> {
  try {
    const hash = await argon2id({
      password,
      salt,
      memorySize: memoryKiB,
      iterations: passes,
      parallelism: lanes,
      hashLength: hashBytes,
      outputType: 'binary',
    });
    return { id, hash };
  } catch (error) {
    return { id, problem: messageOf(error) };
  }
}
