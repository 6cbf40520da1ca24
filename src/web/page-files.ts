import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { HoldfastError } from '../lib/errors.js';
import type { Answer } from './answer.js';
import type { Routes } from './server.js';

/** What scripts/build-page.mjs leaves beside the compiled code, by the path under which a browser asks for it. */
const FILES = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/page.js': { file: 'page.js', type: 'text/javascript; charset=utf-8' },
  '/page.css': { file: 'page.css', type: 'text/css; charset=utf-8' },
  '/icon.svg': { file: 'icon.svg', type: 'image/svg+xml' },
} as const;

/** Routes for the page's files, read once. Throws when they were not built, rather than serving half a page later. */
export async function loadPageFiles(folder = new URL('./page/', import.meta.url)): Promise<Routes> {
  const routes = Object.entries(FILES).map(async ([path, { file, type }]) => {
    const body = await readFile(new URL(file, folder)).catch((cause: unknown) => {
      throw new HoldfastError('internal.assertion', `The status page's ${file} is missing from this installation`, {
        values: { folder: folder.pathname },
        cause,
        hint: 'Install the package again, or run "npm run build" in a source tree.',
      });
    });
    const etag = `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
    const answer: Answer = { status: 200, type, body, etag };
    return [path, () => answer] as const;
  });
  return Object.fromEntries(await Promise.all(routes));
}
