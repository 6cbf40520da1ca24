import { parentPort, workerData } from 'node:worker_threads';
import { answerTo, FakeDevice } from './readers.fake-device.js';

/** A device in a thread of its own, that says in shared memory when its answer is on the way. */
const answered = new Int32Array(workerData as SharedArrayBuffer);
const device = await FakeDevice.listen((question) => {
  question.socket.write(answerTo(question), () => {
    Atomics.store(answered, 0, 1);
    Atomics.notify(answered, 0);
  });
});
parentPort?.postMessage(device.port);
