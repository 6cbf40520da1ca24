/** `/metrics` of a web address, as text, and the names of the metrics in it: histograms by the names that rules use. */
export async function scrape(web: string): Promise<{ text: string; names: Set<string> }> {
  const answer = await fetch(new URL('/metrics', web));
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${answer.status}: ${text}`);
  const names = [...text.matchAll(/^([a-z]\w*)(?:\{.*\})? /gm)].map(([, name]) => name as string);
  const types = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name as string);
  return { text, names: new Set([...names, ...types]) };
}

/** The value of a sample as it stands, labels included; undefined when there is none. */
export function sample(text: string, name: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}
