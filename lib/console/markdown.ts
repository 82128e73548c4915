// Streaming Markdown: the text is split into blocks; while it grows, only the last two are parsed again, and unchanged blocks
// keep their elements.
import DOMPurify from 'dompurify'
import { Marked, type Tokens } from 'marked'
import { useRef } from 'preact/hooks'
import { html } from './html.ts'

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML in the text is shown as text.
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escaped(text),
    // Loading a remote image would reveal the reader to its server, so it is only a link.
    image: ({ href, text }: Tokens.Image) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? '☑ ' : '☐ '),
    code: ({ text, lang }: Tokens.Code) =>
      `<div class="code"><div class="code-head"><span>${escaped(lang?.split(/\s/)[0] || 'text')}</span><button type="button" data-copy>Copy</button></div><pre tabindex="0"><code>${escaped(text)}</code></pre></div>`
  }
})

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return
  node.setAttribute('target', '_blank')
  node.setAttribute('rel', 'noopener noreferrer')
})

const RULES = {
  FORBID_TAGS: ['style', 'form', 'input', 'img', 'svg', 'math', 'video', 'audio', 'picture', 'source'],
  FORBID_ATTR: ['style', 'id', 'name'],
  ADD_ATTR: ['target', 'data-copy', 'tabindex'],
  // The library's default with fewer protocols; it applies to all attributes.
  ALLOWED_URI_REGEXP: /^(?:(?:https?|mailto):|[^a-z]|[a-z+.-]+(?:[^a-z+.\-:]|$))/i
}

interface Block {
  readonly raw: string
  /** Start in the parsed text. */
  readonly at: number
  readonly html: string
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  let at = 0
  for (const token of marked.lexer(text)) {
    const begin = at
    at += token.raw.length
    if (token.type === 'space' || token.type === 'def') continue
    blocks.push({ raw: token.raw, at: begin, html: DOMPurify.sanitize(marked.parser([token]), RULES) })
  }
  return blocks
}

/** Last blocks that may still change: a list may continue after a blank line, a paragraph may become a table's head. */
const OPEN_BLOCKS = 2

class Growing {
  #text = ''
  #settled: Block[] = []
  #settledEnd = 0
  #open: Block[] = []

  blocks(given: string): readonly Block[] {
    const text = given.includes('\r') ? given.replace(/\r\n?/g, '\n') : given
    if (text !== this.#text) this.#read(text)
    return [...this.#settled, ...this.#open]
  }

  #read(text: string): void {
    const before = this.#open
    if (!text.startsWith(this.#text.slice(0, this.#settledEnd))) {
      this.#settled = []
      this.#settledEnd = 0
    }
    const grows = text.startsWith(this.#text)
    this.#text = text
    const rest = text.slice(this.#settledEnd)
    const blocks = blocksOf(rest)
    // Unchanged blocks keep their elements.
    this.#open = grows ? blocks.map((block, i) => (before[i]?.raw === block.raw ? before[i]! : block)) : blocks
    const done = this.#open.length - OPEN_BLOCKS
    if (done <= 0) return
    // Positions are from the new parse, even for old blocks.
    const end = blocks[done]!.at
    this.#settled = [...this.#settled, ...this.#open.slice(0, done)]
    this.#open = this.#open.slice(done)
    this.#settledEnd += end
  }
}

export function Markdown({ text }: { readonly text: string }) {
  const growing = useRef<Growing | null>(null)
  growing.current ??= new Growing()
  const blocks = growing.current.blocks(text)
  // Elements of their own for each render: a kept one would keep the whole page as it was, by its parent.
  return html`<div class="markdown">${blocks.map(
    (block, i) => html`<div key=${i} class="block" dangerouslySetInnerHTML=${{ __html: block.html }} />`
  )}</div>`
}

/** Copies a code block when its button is clicked. */
export function copyOnClick(event: MouseEvent): void {
  const button = (event.target as Element | null)?.closest?.('[data-copy]')
  const code = button?.closest('.code')?.querySelector('code')?.textContent
  if (!button || code == null) return
  void copyText(code).then(() => {
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
}

/** navigator.clipboard only exists on secure origins; elsewhere a selection is copied. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}
