// Compiles the package: ES modules in dist, CommonJS in dist/cjs. The types keep their comments, the code does not. Resolvers
// that know no `exports` find `gas-suggestion/viem` as a folder of that name.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
rmSync('dist', { recursive: true, force: true })
for (const project of ['tsconfig.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--project', project], { stdio: 'inherit' })
}
for (const name of readdirSync('dist', { recursive: true }).filter((name) => name.endsWith('.js'))) {
  const { ES2022 } = ts.ScriptTarget
  const compilerOptions = { target: ES2022, module: ts.ModuleKind.ES2022, removeComments: true }
  const { outputText } = ts.transpileModule(readFileSync(`dist/${name}`, 'utf8'), { compilerOptions })
  writeFileSync(`dist/${name}`, outputText)
}
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n')
for (const path of Object.keys(JSON.parse(readFileSync('package.json', 'utf8')).exports)) {
  const name = path.slice(2)
  if (name === '' || name.includes('.')) continue
  mkdirSync(name, { recursive: true })
  const files = { main: `../dist/cjs/${name}.js`, types: `../dist/cjs/${name}.d.ts` }
  writeFileSync(`${name}/package.json`, `${JSON.stringify(files)}\n`)
}
