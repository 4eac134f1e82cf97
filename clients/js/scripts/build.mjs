// Compiles the package: ES modules in dist, CommonJS in dist/cjs.

import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
rmSync('dist', { recursive: true, force: true })
for (const project of ['tsconfig.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--project', project], { stdio: 'inherit' })
}
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n')
