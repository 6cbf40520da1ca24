/** Lets one piece of work run at a time: urgent ones first, the others in the order of asking. */
export class Turns {
  private readonly urgent: (() => Promise<void>)[] = [];
  private readonly waiting: (() => Promise<void>)[] = [];
  private running = false;

  get isIdle(): boolean {
    return !this.running;
  }

  /** Settles as `work` does, once it has had its turn. */
  take<T>(work: () => Promise<T>, urgent = false): Promise<T> {
    return new Promise((resolve, reject) => {
      (urgent ? this.urgent : this.waiting).push(() => work().then(resolve, reject));
      if (!this.running) void this.run();
    });
  }

  private async run(): Promise<void> {
    this.running = true;
    for (let next = this.next(); next; next = this.next()) await next();
    this.running = false;
  }

  private next(): (() => Promise<void>) | undefined {
    return this.urgent.shift() ?? this.waiting.shift();
  }
}
