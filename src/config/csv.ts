/** A row by its column names, in lower case, and the line of the file at which it begins. */
export interface CsvRow {
  readonly line: number;
  readonly cells: Readonly<Record<string, string>>;
}

/**
 * The rows of a table whose first line names the columns [RFC 4180]. The separator is the one that the first line has most
 * of: comma, semicolon (a spreadsheet in much of Europe) or tab. Throws an error when a quote is never closed.
 */
export function parseCsv(text: string): { readonly columns: readonly string[]; readonly rows: readonly CsvRow[] } {
  const body = text.replace(/^\uFEFF/, '');
  const [first = ''] = body.split(/\r?\n/, 1);
  const count = (separator: string) => first.split(separator).length;
  const separator = [',', ';', '\t'].reduce((best, each) => (count(each) > count(best) ? each : best));
  const [header, ...records] = [...recordsOf(body, separator)];
  const columns = (header?.cells ?? []).map((name) => name.trim().toLowerCase());
  const rows = records
    .filter(({ cells }) => cells.some((cell) => cell.trim() !== ''))
    .map(({ line, cells }) => ({
      line,
      cells: Object.fromEntries(columns.map((name, i) => [name, (cells[i] ?? '').trim()])),
    }));
  return { columns, rows };
}

function* recordsOf(text: string, separator: string): Generator<{ line: number; cells: string[] }> {
  let cells: string[] = [];
  let cell = '';
  let line = 1;
  let startLine = 1;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === '\n') line++;
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') cell += text[++at];
      else quoted = false;
    } else if (char === '"' && cell === '') quoted = true;
    else if (char === separator) {
      cells.push(cell);
      cell = '';
    } else if (char === '\n') {
      yield { line: startLine, cells: [...cells, cell.replace(/\r$/, '')] };
      cells = [];
      cell = '';
      startLine = line;
    } else cell += char;
  }
  if (quoted) throw new Error(`line ${startLine}: a quote is never closed`);
  if (cell !== '' || cells.length > 0) yield { line: startLine, cells: [...cells, cell] };
}
