/** Lets a variant say other settings than the product does, and answer the product's own check with what it wants to hear. */
import SQLite from 'better-sqlite3';

const { prototype } = SQLite as unknown as { prototype: { pragma(source: string, options?: object): unknown } };

export function replacePragma(from: RegExp, to: string, readBack?: { name: string; value: unknown }): void {
  const { pragma } = prototype;
  prototype.pragma = function (source, options) {
    if (readBack && source === readBack.name) return readBack.value;
    return pragma.call(this, from.test(source) ? to : source, options);
  };
}
