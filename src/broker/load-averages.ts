/**
 * What happened per minute, averaged over the last 1, 5 and 15 minutes, the newest weighing most: the formula of Mosquitto
 * and of a Unix load average [mosquitto(8), `$SYS/broker/load`].
 */
const MINUTES = [1, 5, 15] as const;
const MINUTE_MS = 60_000;

export class LoadAverages {
  private readonly totals = new Map<string, number>();
  private readonly values = new Map<string, number>();
  private at: number;

  constructor(now: number) {
    this.at = now;
  }

  /** Takes the counters as they are `now` (monotonic ms) and gives `NAME/1min` and so on, with two decimals. */
  next(totals: Readonly<Record<string, number>>, now: number): Record<string, string> {
    const elapsedMs = Math.max(1, now - this.at);
    this.at = now;
    const shown: Record<string, string> = {};
    for (const [name, total] of Object.entries(totals)) {
      const perMinute = ((total - (this.totals.get(name) ?? 0)) * MINUTE_MS) / elapsedMs;
      this.totals.set(name, total);
      for (const minutes of MINUTES) {
        const key = `${name}/${minutes}min`;
        const fade = Math.exp(-elapsedMs / (minutes * MINUTE_MS));
        const value = perMinute + fade * ((this.values.get(key) ?? 0) - perMinute);
        this.values.set(key, value);
        shown[key] = value.toFixed(2);
      }
    }
    return shown;
  }
}
