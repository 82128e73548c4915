// A fast build of a checkout, without types: each source that is newer than its output is transpiled by esbuild, and the page is put
// together when one of its parts has changed. Types are checked by `npm run build` and, beside the suites, by `npm test`.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { transform } from 'esbuild'

const OUT = 'dist'
const FOLDERS = ['lib', 'bin', 'test', 'bench']
/** As in tsconfig.json. */
const EXCLUDED = ['lib/console/', 'test/client/generated/', 'test/fixtures/template/']
/** What the page consists of besides what its build copies. */
const PAGE = ['lib/console', 'lib/client', 'lib/conversation', 'bin/build-page.ts', 'package-lock.json']
const PAGE_STAMP = join(OUT, 'page/.stamp')
const AT_ONCE = 16

const modified = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
const sourcesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
    .filter((file) => !EXCLUDED.some((excluded) => file.startsWith(excluded)))
const outputOf = (file) => join(OUT, file.replace(/\.ts$/, '.js'))

/** Relative imports of sources become those of their outputs, as tsc's rewriteRelativeImportExtensions has it. */
function withOutputs(code) {
  return code.replace(/(\bfrom\s*|\bimport\s*\(?\s*)(["'])(\.[^"'\n]*)\.ts\2/g, '$1$2$3.js$2')
}

async function transpile(file) {
  const target = outputOf(file)
  const { code, map } = await transform(readFileSync(file, 'utf8'), {
    loader: 'ts',
    format: 'esm',
    target: 'es2023',
    sourcemap: 'external',
    sourcefile: file,
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, target: 'es2023' } }
  })
  const up = '../'.repeat(target.split('/').length - 1)
  const sources = { ...JSON.parse(map), sources: [up + file] }
  delete sources.sourcesContent
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(`${target}.map`, JSON.stringify(sources))
  writeFileSync(target, `${withOutputs(code)}//# sourceMappingURL=${target.split('/').at(-1)}.map\n`)
}

/** Outputs whose sources are gone would go on being imported, and run as suites. */
function removeStale(files) {
  const outputs = new Set(files.map(outputOf))
  for (const folder of FOLDERS) {
    if (!existsSync(join(OUT, folder))) continue
    for (const name of readdirSync(join(OUT, folder), { recursive: true, encoding: 'utf8' })) {
      const file = join(OUT, folder, name)
      if (!file.endsWith('.js') || outputs.has(file) || EXCLUDED.some((one) => file.startsWith(join(OUT, one))))
        continue
      for (const stale of [file, `${file}.map`, file.replace(/\.js$/, '.d.ts')]) rmSync(stale, { force: true })
    }
  }
}

function run(command, ...args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

function newestIn(path) {
  if (!statSync(path).isDirectory()) return modified(path)
  return Math.max(...readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => modified(join(path, name))))
}

const files = FOLDERS.flatMap(sourcesIn)
removeStale(files)
// tsc would take what it has not written for what it has.
rmSync(join(OUT, '.tsbuildinfo'), { force: true })
const waiting = files.filter((file) => modified(file) > modified(outputOf(file)))
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) await transpile(file)
  })
)

const isPageStale = Math.max(...PAGE.map(newestIn)) > modified(PAGE_STAMP)
if (isPageStale) run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'lib/console', '--noCheck')
run(process.execPath, join(OUT, 'bin/build.js'), ...(isPageStale ? [] : ['--without-page']))
if (isPageStale) writeFileSync(PAGE_STAMP, '')
