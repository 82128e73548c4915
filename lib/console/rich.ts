// What makes code, formulas and diagrams fit to read. The libraries are loaded when the first answer needs them: until then, and if they
// do not come, code and formulas stand there as they were written.
import { signal } from '@preact/signals'
import { BASE } from './base.ts'

/** Counts the libraries that have come: what is drawn with an older count is drawn again. */
export const richness = signal(0)

/** Code beyond this is not coloured, in characters; the second: while its end is still to come, for it is read anew with every delta. */
const CODE_MAX = 60_000
const GROWING_MAX = 4_000
/** The longest formula, in characters. */
const FORMULA_MAX = 4_000

interface Highlighter {
  registerLanguage(name: string, grammar: unknown): void
  getLanguage(name: string): unknown
  highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { readonly value: string }
}
interface Typesetter {
  renderToString(tex: string, options: object): string
}

/** Names by which code is marked, and the language's file. */
const LANGUAGES: Readonly<Record<string, string>> = {
  bash: 'bash',
  sh: 'bash',
  shell: 'bash',
  zsh: 'bash',
  console: 'bash',
  c: 'cpp',
  cpp: 'cpp',
  'c++': 'cpp',
  h: 'cpp',
  cc: 'cpp',
  css: 'css',
  scss: 'css',
  go: 'go',
  golang: 'go',
  java: 'java',
  kotlin: 'java',
  js: 'javascript',
  javascript: 'javascript',
  jsx: 'javascript',
  mjs: 'javascript',
  json: 'json',
  jsonc: 'json',
  json5: 'json',
  py: 'python',
  python: 'python',
  python3: 'python',
  sql: 'sql',
  sqlite: 'sql',
  postgresql: 'sql',
  ts: 'typescript',
  typescript: 'typescript',
  tsx: 'typescript',
  html: 'xml',
  xml: 'xml',
  svg: 'xml',
  yml: 'yaml',
  yaml: 'yaml'
}

let highlighter: Highlighter | null = null
let typesetter: Typesetter | null = null
const asked = new Map<string, Promise<unknown>>()

/** A file of the page's own, once. It counts as come when `use` has taken it. */
function load(name: string, use: (module: { default: never }) => void): void {
  if (asked.has(name)) return
  const path = new URL(`../vendor/${name}.js`, import.meta.url).href
  const coming = import(path).then(use).then(
    () => {
      richness.value++
    },
    // After a deploy the file has another name, and offline there is none.
    () => {}
  )
  asked.set(name, coming)
}

/** HTML of code with its words marked; null: as it is. `isOpen`: its end is still to come. */
export function codeHtml(code: string, lang: string, isOpen: boolean): string | null {
  const language = LANGUAGES[lang.toLowerCase()]
  if (!language || code.length > (isOpen ? GROWING_MAX : CODE_MAX)) return null
  if (!highlighter) {
    load('highlight', (module) => {
      highlighter = module.default
    })
    return null
  }
  const { getLanguage, registerLanguage, highlight } = highlighter
  if (getLanguage(language)) return highlight(code, { language, ignoreIllegals: true }).value
  load(`highlight-${language}`, (module) => registerLanguage(language, module.default))
  return null
}

/** MathML of a formula of TeX; null: as it is, which is also what cannot be read as a formula. */
export function formulaHtml(tex: string, isBlock: boolean): string | null {
  if (tex.length > FORMULA_MAX) return null
  if (!typesetter) {
    load('katex', (module) => {
      typesetter = module.default
    })
    return null
  }
  try {
    const html = typesetter.renderToString(tex, {
      output: 'mathml',
      displayMode: isBlock,
      strict: 'ignore',
      maxExpand: 200
    })
    // Without the source, which is kept beside it, and without what wraps both.
    return (
      /<math.*<\/math>/s
        .exec(html)?.[0]
        .replace(/<semantics>(.*)<annotation[^>]*>.*<\/annotation><\/semantics>/s, '$1') ?? null
    )
  } catch {
    return null
  }
}

/** The source of the optional diagram library; null: this installation has none. */
export function diagramLibrary(): Promise<string | null> {
  const coming =
    (asked.get('diagrams') as Promise<string | null> | undefined) ??
    fetch(`${BASE}/console/diagrams.js`).then(
      async (response) => (response.status === 200 ? response.text() : null),
      () => null
    )
  asked.set('diagrams', coming)
  return coming
}
