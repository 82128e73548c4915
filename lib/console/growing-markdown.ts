// Markdown that grows: HTML of a text by blocks, of which only the end is parsed again when more arrives. The text is cut where no later
// character can change what stands before, and each section is parsed by itself; so a text that grew has the HTML of the same text read at
// once. Definitions (links, footnotes) count in all sections, also those that come before them.
import { Lexer, type Links, Marked, Renderer, type Token, type Tokens } from 'marked'
import { FENCE, fenceEnd, piecesOf, SUMMARY } from './folds.ts'

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

/** A formula in a line between single dollars, as Pandoc reads it: prices are none. */
const DOLLARS = String.raw`\$(?![\s$])(?:\\[^]|[^$\\\n])*?(?<!\s)\$(?![\w$])`
const FORMULA = String.raw`\\\((?:(?!\n[ \t]*\n)[^])+?\\\)|\\\[(?:(?!\n[ \t]*\n)[^])+?\\\]|\$\$(?:(?!\n[ \t]*\n)[^])+?\$\$`
const FORMULA_HERE = new RegExp(`^(?:${FORMULA}|${DOLLARS})`)
const FORMULA_BLOCK = new RegExp(`^ {0,3}(${FORMULA})[ \\t]*(?:\\n+|$)`)
/** A footnote's text: up to a blank line, and the indented lines behind it. */
const NOTE =
  /^ {0,3}\[\^([^\]\s]+)\]:[ \t]*([^\n]*(?:\n(?! {0,3}(?:\[\^[^\]\s]+\]:|#{1,6}\s|```|~~~))[ \t]*\S[^\n]*|\n[ \t]*\n(?: {2,}|\t)[^\n]*\S[^\n]*)*)(?:\n+|$)/
const NOTE_MARK = /^\[\^([^\]\s]+)\]/

const none = (): Links => Object.create(null)
/** As the library compares labels. */
const folded = (text: string): string => text.toLowerCase().toUpperCase().toLowerCase()
/** Footnotes are kept among the links, by names in capitals, which no link has. */
const noteTag = (name: string): string => `NOTE ${folded(name)}`
const labelOf = (tag: string): string => `[${tag.replace(/^NOTE /, '^')}]`

const tables = new Renderer()

/** What a browser adds when its libraries are there; each answers null for what stays as it is written. */
export const rich = {
  code: (_code: string, _lang: string, _isOpen: boolean): string | null => null,
  formula: (_tex: string, _isBlock: boolean): string | null => null,
  /** Words of the page in its reader's language. */
  t: (english: string, ..._given: readonly unknown[]): string => english
}

/** A formula with its source, as it is copied. */
function formulaOf(raw: string, isBlock: boolean): string {
  const source = raw.trim()
  const marks = source.startsWith('\\') || source.startsWith('$$') ? 2 : 1
  const html = rich.formula(source.slice(marks, -marks), isBlock)
  return html ? `<span data-source="${escaped(source)}">${html}</span>` : escaped(source)
}

/** Whether the end of a block of code is still to come. */
const isOpen = (raw: string): boolean => !/\n {0,3}(?:`{3,}|~{3,})[ \t]*\n*$/.test(raw)

function codeOf({ raw, text, lang }: Tokens.Code): string {
  const name = lang?.split(/\s/)[0] || 'text'
  const buttons = [`data-wrap>${rich.t('Wrap')}`, `data-save>${rich.t('Save')}`, `data-copy>${rich.t('Copy')}`]
    .map((button) => `<button type="button" ${button}</button>`)
    .join('')
  const kind = name === 'mermaid' && !isOpen(raw) ? ' data-diagram' : ''
  const code = rich.code(text, name, isOpen(raw)) ?? escaped(text)
  return `<div class="code"${kind} data-lang="${escaped(name)}"><div class="code-head"><span>${escaped(name)}</span>${buttons}</div><pre tabindex="0"><code>${code}</code></pre></div>`
}

/** Remote images would reveal the reader to their server: they are links that name it. */
function imageOf({ href, text }: Tokens.Image): string {
  if (/^data:image\/(?:png|jpe?g|gif|webp|avif);base64,/.test(href))
    return `<img class="picture" src="${escaped(href)}" alt="${escaped(text || rich.t('Image'))}">`
  const remote = URL.parse(href)
  if (!remote || remote.protocol === 'sandbox:')
    return `<img class="picture" data-file="${escaped(href.replace(/^sandbox:/, ''))}" alt="${escaped(text || href)}">`
  const host = remote.host && remote.host !== text ? ` <small>${escaped(remote.host)}</small>` : ''
  return `<a class="remote" href="${escaped(href)}">${escaped(text || href)}${host}</a>`
}

/** DeerFlow's agents mark links as citations. */
const CITATION = /^citation:\s*/

/** Tags for what Markdown has no mark, as models write them. All other HTML in the text is shown as text. */
const TYPOGRAPHY = /^<\/?(?:br|kbd|mark|sub|sup|u)\s*\/?>\s*$/i

/** The library with our words for code, tables, images, formulas and footnotes. */
export const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => (TYPOGRAPHY.test(text) ? text : escaped(text)),
    image: imageOf,
    link(token: Tokens.Link) {
      if (!CITATION.test(token.text)) return false
      return `<a class="cite" href="${escaped(token.href)}">${escaped(token.text.replace(CITATION, ''))}</a>`
    },
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? '☑ ' : '☐ '),
    code: codeOf,
    // A wide table scrolls by itself, also by keys.
    table(token: Tokens.Table) {
      tables.parser = this.parser
      return `<div class="table" tabindex="0">${tables.table(token)}</div>`
    }
  },
  extensions: [
    {
      name: 'formula',
      level: 'block',
      tokenizer: (text) => {
        const [raw, formula] = FORMULA_BLOCK.exec(text) ?? []
        return raw === undefined ? undefined : { type: 'formula', raw, text: formula }
      },
      renderer: ({ text }) =>
        `<p class="formula" tabindex="0">${formulaOf(String(text), !String(text).startsWith('\\('))}</p>`
    },
    {
      name: 'inline-formula',
      level: 'inline',
      start: (text) => text.search(/\\[([]|\$/),
      tokenizer: (text) => {
        const [raw] = FORMULA_HERE.exec(text) ?? []
        return raw === undefined ? undefined : { type: 'inline-formula', raw }
      },
      renderer: ({ raw }) => `<span class="formula">${formulaOf(raw, /^(?:\$\$|\\\[)/.test(raw))}</span>`
    },
    {
      name: 'note',
      level: 'block',
      tokenizer(text) {
        const [raw, name, note] = NOTE.exec(text) ?? []
        if (raw === undefined || name === undefined || note === undefined) return undefined
        this.lexer.tokens.links[noteTag(name)] ??= { href: '', title: undefined }
        return { type: 'note', raw, name, tokens: this.lexer.inline(note) }
      },
      renderer(token) {
        return `<p class="note" tabindex="-1" data-note-text="${escaped(folded(String(token.name)))}"><sup>${escaped(String(token.name))}</sup> ${this.parser.parseInline(token.tokens ?? [])}</p>`
      }
    },
    {
      name: 'note-mark',
      level: 'inline',
      tokenizer(text) {
        const [raw, name] = NOTE_MARK.exec(text) ?? []
        if (raw === undefined || name === undefined || !(noteTag(name) in this.lexer.tokens.links)) return undefined
        return { type: 'note-mark', raw, name }
      },
      renderer: ({ name }) =>
        `<sup class="note-mark"><button type="button" data-note="${escaped(folded(String(name)))}" aria-label="${escaped(rich.t('Footnote {}', name))}">${escaped(String(name))}</button></sup>`
    }
  ]
})

// -------------------------------------------------------------------------------------------------- sections

const HTML_ENDS: readonly [RegExp, RegExp][] = [
  [/^ {0,3}<(?:script|pre|style|textarea)(?=[\s>]|$)/i, /<\/(?:script|pre|style|textarea)>/i],
  [/^ {0,3}<!--/, /-->/],
  [/^ {0,3}<\?/, /\?>/],
  [/^ {0,3}<!\[CDATA\[/, /\]\]>/],
  [/^ {0,3}<![a-z]/i, />/],
  // Any other tag, up to a blank line.
  [/^ {0,3}<[a-z/]/i, /^[ \t]*$/]
]
const HEADING = /^#{1,6}(?:[ \t]|$)/
const BULLET = /^(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)/

/**
 * Finds the places where a text may be cut: a line that begins a block whatever follows, behind a block that it ends. In doubt it finds none,
 * which costs time and changes nothing. It reads whole lines only.
 */
class Cutter {
  /** Where sections begin. */
  readonly starts = [0]
  #at = 0
  /** What closes the code that is open. */
  #fence: RegExp | null = null
  #isFlush = false
  #htmlEnd: RegExp | null = null
  /** What the last line has ended: anything but a list, or a list too. */
  #ended: 'nothing' | 'block' | 'list' = 'nothing'

  read(text: string): void {
    for (let end = text.indexOf('\n', this.#at); end >= 0; end = text.indexOf('\n', this.#at)) {
      if (this.#isStart(text.slice(this.#at, end)) && this.#at > 0) this.starts.push(this.#at)
      this.#at = end + 1
    }
  }

  #isStart(line: string): boolean {
    if (this.#fence) {
      this.#closeFence(line)
      return false
    }
    if (this.#htmlEnd) {
      this.#closeHtml(line)
      return false
    }
    if (/^[ \t]*$/.test(line)) {
      if (this.#ended === 'nothing') this.#ended = 'block'
      return false
    }
    const [, indent, fence] = FENCE.exec(line) ?? []
    const isWhole = HEADING.test(line) || indent === ''
    const isFree = this.#ended === 'list' || (this.#ended === 'block' && !BULLET.test(line))
    this.#ended = HEADING.test(line) ? 'list' : 'nothing'
    if (fence) {
      this.#fence = fenceEnd(fence)
      this.#isFlush = indent === ''
    } else this.#openHtml(line)
    return isWhole || (isFree && /^\S/.test(line))
  }

  #closeFence(line: string): void {
    if (!this.#fence?.test(line)) return
    this.#fence = null
    this.#ended = this.#isFlush ? 'list' : 'nothing'
  }

  #openHtml(line: string): void {
    const [, end] = HTML_ENDS.find(([begin]) => begin.test(line)) ?? []
    if (!end || end.test(line)) return
    this.#htmlEnd = end
  }

  #closeHtml(line: string): void {
    if (!this.#htmlEnd?.test(line)) return
    this.#htmlEnd = null
    this.#ended = /^[ \t]*$/.test(line) ? 'block' : 'nothing'
  }
}

/** Levels of quotes and lists that one line opens: of more the library would fill the stack, and there would be no page. */
const LEVELS_MAX = 200
const LEVELS = /^(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*/

function isTooDeep(line: string): boolean {
  const [opened = ''] = line.length > LEVELS_MAX ? (LEVELS.exec(line) ?? []) : []
  return (opened.match(/[>.)*+-]/g)?.length ?? 0) > LEVELS_MAX
}

/** A text that is read but for its lines, or a tag of a fold. */
type Piece = { readonly lexer: Lexer; readonly isSummary: boolean } | { readonly tag: string }

class Section {
  readonly raw: string
  /** Its own definitions. */
  readonly links: Links
  /** By block. */
  blocks: readonly string[] = []
  #pieces: readonly Piece[] | null
  #labels: string | null = null
  /** Shown as it is written. */
  readonly #isPlain: boolean

  constructor(raw: string) {
    this.raw = raw
    this.#isPlain = raw.split('\n').some(isTooDeep)
    this.#pieces = this.#isPlain ? null : lexed(raw)
    this.links = linksOf((this.#pieces ?? []).map((one) => ('tag' in one ? { links: none() } : one.lexer.tokens)))
  }

  /** Makes its HTML with the definitions of the whole text. */
  render(links: Links): void {
    if (this.#isPlain) {
      this.blocks = [`<p>${escaped(this.raw.trim()).replaceAll('\n', '<br>')}</p>`]
      return
    }
    const pieces = this.#pieces ?? lexed(this.raw)
    this.#pieces = null
    this.blocks = pieces.flatMap((one) => {
      if ('tag' in one) return one.tag
      const blocks = blocksOf(one.lexer, links)
      return one.isSummary ? `${SUMMARY}${blocks.join('')}</div>` : blocks
    })
  }

  /** Whether it may refer to a definition. */
  mentions(tag: string): boolean {
    this.#labels ??= this.raw.includes('[') ? labelsIn(this.raw) : ''
    return this.#labels.includes(labelsIn(labelOf(tag)))
  }
}

const isShown = ({ type }: Token): boolean => type !== 'space' && type !== 'def'

/** Without what stands inside the lines, which needs the definitions of the whole text. */
function lexed(raw: string): readonly Piece[] {
  return piecesOf(raw).map(({ kind, text }) => {
    if (kind === 'tag') return { tag: text }
    const lexer = new Lexer(marked.defaults)
    lexer.blockTokens(text, lexer.tokens)
    return { lexer, isSummary: kind === 'summary' }
  })
}

function blocksOf(lexer: Lexer, links: Links): readonly string[] {
  const { tokens } = lexer
  tokens.links = links
  for (const { src, tokens } of lexer.inlineQueue) {
    lexer.state.inRawBlock = false
    lexer.inlineTokens(src, tokens)
  }
  return tokens.filter(isShown).map((token) => marked.parser([token]))
}

/** Labels as they are compared, whatever the case, line breaks, quotation marks and escapes of tables between their words. */
function labelsIn(text: string): string {
  return folded(text)
    .replaceAll('\\|', '|')
    .replace(/[\s>]+/g, ' ')
    .replaceAll('[ ', '[')
    .replaceAll(' ]', ']')
}

// ------------------------------------------------------------------------------------------------- growing

export class GrowingMarkdown {
  #text = ''
  #cutter = new Cutter()
  #sections: readonly Section[] = []
  #links = none()

  /** HTML of the text by blocks, to be sanitised. */
  blocks(given: string): readonly string[] {
    const text = given.includes('\r') ? given.replace(/\r\n?/g, '\n') : given
    if (text !== this.#text) this.#read(text)
    return this.#sections.flatMap(({ blocks }) => blocks)
  }

  #read(text: string): void {
    const grows = text.startsWith(this.#text)
    if (!grows) this.#cutter = new Cutter()
    this.#text = text
    this.#cutter.read(text)
    const before = this.#sections
    // All sections but the last are as they were.
    const kept = grows ? before.slice(0, -1) : []
    const { starts } = this.#cutter
    const further = starts.slice(kept.length).map((start, i) => {
      const raw = text.slice(start, starts[kept.length + i + 1])
      const was = before[kept.length + i]
      return was?.raw === raw ? was : new Section(raw)
    })
    this.#sections = [...kept, ...further]
    const links = linksOf(this.#sections)
    const changed = differing(this.#links, links)
    this.#links = links
    const fresh = new Set(further.filter((section) => !before.includes(section)))
    const stale = changed.length === 0 ? fresh : this.#sections
    for (const section of stale)
      if (fresh.has(section) || changed.some((tag) => section.mentions(tag))) section.render(links)
  }
}

/** Of several definitions the first counts. */
function linksOf(parts: readonly { readonly links: Links }[]): Links {
  const all = none()
  for (const { links } of parts) for (const tag of Object.keys(links)) all[tag] ??= links[tag]!
  return all
}

function differing(a: Links, b: Links): string[] {
  const isSame = (tag: string) =>
    a[tag]?.href === b[tag]?.href && a[tag]?.title === b[tag]?.title && tag in a === tag in b
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((tag) => !isSame(tag))
}
