#!/usr/bin/env node
// Part of the build: puts together what browsers are sent. Compiled modules, libraries, styles and pages are copied to dist/public,
// each beside its compressed forms, and never bundled: what is served is what was written. The folder of a build is named by a
// digest of all that is in it, so that browsers may keep it for ever.
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** This file is compiled to dist/bin. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FROM = join(ROOT, 'lib/console')
const COMPILED = join(ROOT, 'dist/page')
const TO = join(ROOT, 'dist/public')
const MODULES = join(ROOT, 'node_modules')
const CLIENT = 'client/colloquy.js'
/** What the client imports, in the order in which it stands before it. It becomes part of it, so that users have one file. */
const PARTS = [
  'conversation/chunk.js',
  'client/silence.js',
  'client/api-error.js',
  'client/frames.js',
  'client/transcript.js'
]

/** What the page imports by name, and the file of it that browsers understand. */
const LIBRARIES: Readonly<Record<string, string>> = {
  preact: 'preact/dist/preact.mjs',
  'preact/hooks': 'preact/hooks/dist/hooks.mjs',
  htm: 'htm/dist/htm.mjs',
  '@preact/signals-core': '@preact/signals-core/dist/signals-core.mjs',
  '@preact/signals': '@preact/signals/dist/signals.mjs',
  marked: 'marked/lib/marked.esm.js',
  dompurify: 'dompurify/dist/purify.min.js',
  uplot: 'uplot/dist/uPlot.esm.js'
}
/** Libraries whose short form is no module: what they set becomes what the module exports. */
const GLOBALS: Readonly<Record<string, string>> = { dompurify: 'DOMPurify' }
/** What the first code and the first formula of an answer load: languages of highlight.js, and KaTeX, which is no module yet. */
const HIGHLIGHT = '@highlightjs/cdn-assets/es'
const LANGUAGES = 'bash cpp css go java javascript json python sql typescript xml yaml'.split(' ')
const KATEX = 'katex/dist/katex.min.js'
/** Packages whose licences are shipped beside the page. */
const PACKAGES = [...Object.keys(LIBRARIES), '@highlightjs/cdn-assets', 'katex']

const vendorPath = (name: string): string => `vendor/${name.replace('@', '').replace('/', '-')}.js`

/** What an installed page is called, and looks like. */
const MANIFEST = {
  name: 'Colloquy',
  short_name: 'Colloquy',
  // From the file's own place, which may be below a path of somebody else's server.
  start_url: '../../../',
  scope: '../../../',
  display: 'standalone',
  background_color: '#fbfbfd',
  theme_color: '#4f46c9',
  icons: [{ src: '../../../favicon.ico', type: 'image/svg+xml', sizes: 'any', purpose: 'any' }]
}

/** Files of the build's own folder, by path below it. */
function assets(): Map<string, string> {
  const files = new Map<string, string>()
  for (const name of list(COMPILED, '.js')) files.set(name, readFileSync(join(COMPILED, name), 'utf8'))
  files.set(CLIENT, joined(PARTS.map((file) => files.get(file) ?? '').join(''), files.get(CLIENT) ?? ''))
  for (const file of PARTS) files.delete(file)
  for (const [name, file] of Object.entries(LIBRARIES))
    files.set(vendorPath(name), moduleOf(name, withoutMap(readFileSync(join(MODULES, file), 'utf8'))))
  for (const [path, text] of loadedLater()) files.set(path, text)
  for (const name of list(FROM, '.css')) files.set(`console/${name}`, readFileSync(join(FROM, name), 'utf8'))
  for (const name of list(FROM, '.svg')) files.set(`console/${name}`, readFileSync(join(FROM, name), 'utf8'))
  files.set('console/manifest.webmanifest', JSON.stringify(MANIFEST))
  files.set('vendor/uplot.css', readFileSync(join(MODULES, 'uplot/dist/uPlot.min.css'), 'utf8'))
  for (const [path, text] of files) if (path.endsWith('.js')) files.set(path, resolved(path, text))
  return files
}

function loadedLater(): [string, string][] {
  const read = (file: string) => withoutMap(readFileSync(join(MODULES, file), 'utf8'))
  return [
    ['vendor/highlight.js', read(`${HIGHLIGHT}/core.min.js`)],
    ...LANGUAGES.map((name): [string, string] => [
      `vendor/highlight-${name}.js`,
      read(`${HIGHLIGHT}/languages/${name}.min.js`)
    ]),
    ['vendor/katex.js', `${read(KATEX)}\nexport default self.katex\n`]
  ]
}

/** A library as a module. */
const moduleOf = (name: string, text: string): string =>
  name in GLOBALS ? `${text}\nexport default globalThis.${GLOBALS[name]}\n` : text

/** The styles of each page in one file: it is what the first picture waits for. */
function withStyles(files: Map<string, string>): Map<string, string> {
  for (const name of list(FROM, '.html')) {
    const styles = stylesOf(readFileSync(join(FROM, name), 'utf8'))
    if (styles.length > 0) files.set(styleSheet(name), styles.map((one) => files.get(`console/${one}`)).join(''))
  }
  return files
}

const STYLES = /<!-- styles (.+) -->/
const stylesOf = (page: string): string[] => STYLES.exec(page)?.[1]?.split(' ') ?? []
const styleSheet = (page: string): string => `console/${page.replace(/\.html$/, '')}-page.css`

function list(folder: string, ending: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .sort()
}

/** The client with its parts before it. They share a scope: what one declares no other may. */
function joined(parts: string, client: string): string {
  const own = parts
    .replace(/^export \{[^}]*\};?\n/gm, '')
    .replace(/^export (?=(?:async )?(?:function|class|const)\b)/gm, '')
  const text = (own + client).replace(/^import \{[^}]*\} from ["'](\.[^"']+)["'];?\n/gm, (_, path: string) => {
    if (PARTS.some((part) => part.endsWith(posix.basename(path)))) return ''
    throw new Error(`${path} is no part of ${CLIENT}`)
  })
  const names = [...text.matchAll(/^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)/gm)].map(
    ([, name]) => name
  )
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw new Error(`two parts of ${CLIENT} declare ${twice}`)
  return text
}

/** Maps are not served, and a console must not ask for them. */
function withoutMap(text: string): string {
  return text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')
}

/** Browsers know no names of packages: they become paths. */
function resolved(path: string, text: string): string {
  return text.replace(/(\bfrom|\bimport)(\s*\(?\s*)(["'])([@a-z][^"']*)\3/g, (whole, word, gap, quote, name) => {
    if (!(name in LIBRARIES))
      throw new Error(`${path} imports ${name}, which is not among the page's libraries: ${whole}`)
    return `${word}${gap}${quote}${posix.relative(posix.dirname(path), vendorPath(name)).replace(/^(?!\.)/, './')}${quote}`
  })
}

function digestOf(files: ReadonlyMap<string, string>): string {
  const hash = createHash('sha256')
  for (const [path, text] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) hash.update(`${path}\0${text}\0`)
  return hash.digest('hex').slice(0, 16)
}

/**
 * A page with the build's folder filled in, and the modules of its first picture named ahead: they are fetched at once and not one
 * after the other. What a view imports when it is opened is not among them.
 */
function page(name: string, base: string, files: ReadonlyMap<string, string>): string {
  const text = readFileSync(join(FROM, name), 'utf8')
    .replace(STYLES, `<link rel="stylesheet" href="${base}/${styleSheet(name)}">`)
    .replaceAll('{{base}}', base)
  return text.replace(/<!-- modules of (\S+) -->/, (_, entry: string) =>
    [...modulesOf(entry, files)].map((path) => `<link rel="modulepreload" href="${base}/${path}">`).join('\n    ')
  )
}

/** A module and all that it imports at once. */
function modulesOf(path: string, files: ReadonlyMap<string, string>, found = new Set<string>()): Set<string> {
  const text = files.get(path)
  if (text === undefined) throw new Error(`there is no ${path}`)
  if (found.has(path)) return found
  found.add(path)
  for (const [, to = ''] of text.matchAll(/^(?:import|export)\b[^;(]*?["'](\.[^"']+)["']/gm))
    modulesOf(posix.join(posix.dirname(path), to), files, found)
  return found
}

/** Views that a conversation loads when it has something for them; more than what the page needs at first, they are there without a server. */
const VIEWS = ['door', 'markdown', 'plan', 'lane-list', 'question', 'review', 'palette', 'thread-dialogs']

/** The service worker, with the files of the first picture, of the door before it, and of the answers that come into it. */
function worker(base: string, files: ReadonlyMap<string, string>): string {
  const modules = new Set(['main', ...VIEWS].flatMap((name) => [...modulesOf(`console/${name}.js`, files)]))
  const first = [styleSheet('index.html'), 'console/icon.svg', ...modules]
  const paths = first.map((path) => `${base}/${path}`).join(' ')
  return (files.get('console/worker.js') ?? '').replace('{{base}}', base).replace('{{files}}', paths)
}

function write(path: string, text: string): void {
  const file = join(TO, path)
  const bytes = Buffer.from(text)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, bytes)
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }))
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params }))
}

if (!existsSync(join(COMPILED, 'console/main.js'))) throw new Error('compile lib/console first: tsc -p lib/console')
rmSync(TO, { recursive: true, force: true })
const files = withStyles(assets())
const base = `/console/${digestOf(files)}`
for (const [path, text] of files) write(relative('/', `${base}/${path}`), text)
for (const name of list(FROM, '.html')) write(name, page(name, base, files))
write('sw.js', worker(base, files))
write('icon.svg', readFileSync(join(FROM, 'icon.svg'), 'utf8'))
write('colloquy.js', files.get(CLIENT) ?? '')
const licences = join(ROOT, 'dist/public-licences')
for (const name of PACKAGES) {
  const [scope, part] = name.split('/')
  const folder = join(MODULES, name.startsWith('@') ? `${scope}/${part}` : scope!)
  for (const file of readdirSync(folder).filter((one) => /^licen[cs]e/i.test(one)))
    cpSync(join(folder, file), join(licences, `${name.replace(/\W+/g, '-')}-${file}`))
}
