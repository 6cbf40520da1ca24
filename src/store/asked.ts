/** Queries that the thread has not answered yet. */
export class Asked {
  private readonly waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();

  /** Resolves or rejects with the answer to the request `id`, which `send` sends. */
  ask<T>(id: number, send: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      send();
    });
  }

  answer(id: number, value: unknown): void {
    this.waiting.get(id)?.resolve(value);
    this.waiting.delete(id);
  }

  refuse(id: number, error: Error): void {
    this.waiting.get(id)?.reject(error);
    this.waiting.delete(id);
  }

  refuseAll(error: Error): void {
    for (const query of this.waiting.values()) query.reject(error);
    this.waiting.clear();
  }
}
