// Bundles the status page into dist/src/web/page/, so that it needs nothing from any other server.
import { cp } from 'node:fs/promises';
import { build } from 'esbuild';

const from = 'src/web/page';
const to = 'dist/src/web/page';

await build({
  entryPoints: [
    { in: `${from}/main.js`, out: 'page' },
    { in: `${from}/page.css`, out: 'page' },
  ],
  outdir: to,
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['es2022', 'chrome105', 'firefox105', 'safari15.4'],
  logLevel: 'warning',
});
for (const file of ['index.html', 'icon.svg']) await cp(`${from}/${file}`, `${to}/${file}`);
