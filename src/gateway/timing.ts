import type { Upstream } from '../bridge/upstream.js';
import type { Admit } from '../broker/admit.js';
import type { Clock } from '../lib/clock.js';
import { Histogram, SECONDS_BOUNDS } from '../lib/histogram.js';

/** How long the two steps take that a publisher and the cloud wait for, in seconds. */
export class Timings {
  /** From a message's arrival until it is durable. */
  readonly enqueue = new Histogram(SECONDS_BOUNDS);
  /** From the sending of a batch until the cloud has acknowledged it. */
  readonly upstreamAck = new Histogram(SECONDS_BOUNDS);
  private readonly clock: Clock;
  private timing = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** One message at a time is timed: about one of each commit, and the others cost nothing. */
  admit(inner: Admit): Admit {
    return (message, identity, operations, done) => {
      if (this.timing) return inner(message, identity, operations, done);
      this.timing = true;
      const since = this.clock.mono();
      inner(message, identity, operations, (error, results, at) => {
        this.timing = false;
        if (!error) this.enqueue.observe(this.since(since));
        done(error, results, at);
      });
    };
  }

  /** The same upstream, with each acknowledgement timed. */
  upstream(upstream: Upstream): Upstream {
    const connect = upstream.connect.bind(upstream);
    upstream.connect = async (signal) => {
      const link = await connect(signal);
      const send = link.send.bind(link);
      link.send = async (payload, about) => {
        const since = this.clock.mono();
        const verdict = await send(payload, about);
        if (verdict.kind === 'taken') this.upstreamAck.observe(this.since(since));
        return verdict;
      };
      return link;
    };
    return upstream;
  }

  private since(mono: number): number {
    return (this.clock.mono() - mono) / 1000;
  }
}
