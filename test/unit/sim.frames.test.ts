import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FrameReader } from '../../src/sim/cloud/frames.js';
import { Fifo } from '../../src/sim/fifo.js';
import { randomFrom } from '../../src/sim/random.js';

function packet(bytes: number): Buffer {
  const length = [];
  for (let left = bytes; length.length === 0 || left > 0; left = Math.floor(left / 128))
    length.push((left % 128) | (left >= 128 ? 0x80 : 0));
  return Buffer.concat([Buffer.from([0x30, ...length]), Buffer.alloc(bytes, bytes)]);
}

test('packets come out whole, whatever the pieces they arrive in', () => {
  const packets = [0, 1, 127, 128, 16_383, 16_384, 5, 70_000].map(packet);
  const stream = Buffer.concat(packets);
  for (const pieceMax of [1, 3, 1000, stream.length]) {
    const random = randomFrom(pieceMax);
    const frames = new FrameReader();
    const out: Buffer[] = [];
    for (let at = 0; at < stream.length; ) {
      const end = at + 1 + Math.floor(random() * pieceMax);
      frames.push(stream.subarray(at, end));
      at = end;
      for (let next = frames.next(100_000); next; next = frames.next(100_000)) out.push(next as Buffer);
    }
    assert.deepEqual(out, packets);
  }
});

test('a packet over the limit is refused by its first bytes, and an endless length is malformed', () => {
  const frames = new FrameReader();
  frames.push(packet(1000).subarray(0, 3));
  assert.equal(frames.next(1002), 'too-large');
  const exact = new FrameReader();
  exact.push(packet(1000));
  assert.deepEqual(exact.next(1003), packet(1000));
  const endless = new FrameReader();
  endless.push(Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff]));
  assert.equal(endless.next(1000), 'malformed');
});

test('the queue gives what an array would', () => {
  const random = randomFrom(1);
  const fifo = new Fifo<number>();
  const model: number[] = [];
  for (let n = 0; n < 20_000; n++) {
    if (random() < (n < 10_000 ? 0.7 : 0.3)) {
      fifo.push(n);
      model.push(n);
    } else assert.equal(fifo.shift(), model.shift());
    assert.equal(fifo.length, model.length);
    assert.equal(fifo.peek(), model[0]);
  }
});
