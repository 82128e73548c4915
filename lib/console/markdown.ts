// Streaming Markdown on the page: blocks that have not changed keep their elements.
import DOMPurify from 'dompurify'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { awayWords, type Mark } from './away.ts'
import { fileUrl } from './files.ts'
import { nested, type Part } from './folds.ts'
import { GrowingMarkdown, rich } from './growing-markdown.ts'
import { html, Icon } from './html.ts'
import { Later } from './later.ts'
import { codeHtml, formulaHtml, richness } from './rich.ts'
import { t } from './words.ts'

const diagram = () => import('./sandbox.ts').then(({ Diagram: View }) => ({ View }))

rich.code = codeHtml
rich.formula = formulaHtml
rich.t = t

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'IMG' && !/^data:image\/|^$/.test(node.getAttribute('src') ?? '')) node.removeAttribute('src')
  if (node.tagName !== 'A') return
  node.setAttribute('target', '_blank')
  node.setAttribute('rel', 'noopener noreferrer')
})

const RULES = {
  FORBID_TAGS: ['style', 'form', 'input', 'svg', 'video', 'audio', 'picture', 'source'],
  FORBID_ATTR: ['style', 'id', 'name', 'srcset'],
  ADD_ATTR: ['target', 'tabindex'],
  // The library's default with fewer protocols; it applies to all attributes.
  ALLOWED_URI_REGEXP: /^(?:(?:https?|mailto):|[^a-z]|[a-z+.-]+(?:[^a-z+.\-:]|$))/i
}

/** A block and its sanitised HTML, which is made again only if it has changed. */
interface Block {
  readonly given: string
  readonly clean: string
  /** What was added to the block as it was before. */
  readonly growth: (Growth & { readonly from: string }) | null
}

interface MarkdownProps {
  readonly text: string
  /** The thread whose files its images are; none: they are not shown. */
  readonly threadId?: string
  /** Where its reader has left. */
  readonly left?: Mark | null
}

export function Markdown({ text, threadId, left }: MarkdownProps) {
  const drawn = useRef({ richness: -1, growing: new GrowingMarkdown(), blocks: [] as readonly Block[] })
  const { current } = drawn
  if (current.richness !== richness.value) {
    current.richness = richness.value
    current.growing = new GrowingMarkdown()
  }
  const before = current.blocks
  const blocks = current.growing
    .blocks(text)
    .map((given, i) => (before[i]?.given === given ? before[i] : cleaned(given, before[i], threadId)))
  current.blocks = blocks
  // Elements of their own for each render: a kept one would keep the whole page as it was, by its parent.
  const leftAt = useMemo(() => (left ? new GrowingMarkdown().blocks(text.slice(0, left.chars)).length - 1 : -1), [left])
  const draw = (part: Part): ComponentChildren => {
    if (typeof part === 'number') return drawBlock(blocks[part]!, part, part === leftAt ? left : null)
    const { at, isOpen, summary, inside } = part
    return html`<details key=${`f${at}`} class="fold part" dir="auto" open=${isOpen}>
      ${summary !== null && html`<summary><${Icon} name="fold" />${draw(summary)}</summary>`}
      <div class="within">${inside.filter((one) => one !== summary).map(draw)}</div>
    </details>`
  }
  return html`<div class="markdown">${nested(blocks.map(({ given }) => given)).map(draw)}</div>`
}

function drawBlock(one: Block, i: number, left: Mark | null | undefined): ComponentChildren {
  const block = html`<${Drawn} key=${i} ...${one} left=${left} />`
  return one.given.startsWith('<div class="code" data-diagram')
    ? html`<${Later} key=${`d${i}`} load=${diagram} props=${{ source: codeIn(one.clean), children: block }} meanwhile=${block} />`
    : block
}

/** Plain text that was added to a block's HTML at its end, and what closes the block behind it. */
interface Growth {
  readonly text: string
  readonly ends: string
}

/** Longer than what closes the deepest lists that are written. */
const ENDS_MAX = 200

/** null: something else has changed. */
function growthOf(before: string, after: string): Growth | null {
  const [ends = ''] = /(?:<\/[a-z\d]+>\n*)+$/.exec(before.slice(-ENDS_MAX)) ?? []
  const begin = before.slice(0, before.length - ends.length)
  if (ends === '' || after.length <= before.length || !after.startsWith(begin) || !after.endsWith(ends)) return null
  const text = after.slice(begin.length, after.length - ends.length)
  return /[<>&]/.test(text) ? null : { text, ends }
}

/** Text that is only added needs no sanitising, for it cannot be markup. */
function cleaned(given: string, before: Block | undefined, threadId: string | undefined): Block {
  const growth = before ? growthOf(before.given, given) : null
  if (!before || !growth || !before.clean.endsWith(growth.ends))
    return { given, clean: withFiles(DOMPurify.sanitize(given, RULES), threadId), growth: null }
  const { clean: from } = before
  const clean = from.slice(0, -growth.ends.length) + growth.text + growth.ends
  return { given, clean, growth: { ...growth, from } }
}

/** A block whose elements stay while text is added at its end. */
function Drawn({ clean, growth, left }: Block & { readonly left: Mark | null | undefined }) {
  const box = useRef<HTMLDivElement>(null)
  const shown = useRef('')
  useLayoutEffect(() => {
    if (growth && growth.from === shown.current) grow(box.current!, growth)
    else if (clean !== shown.current) box.current!.innerHTML = clean
    shown.current = clean
  }, [clean])
  return html`<div ref=${box} class=${left ? 'block left-off' : 'block'} data-left=${left ? awayWords(left.words) : undefined} dir="auto" />`
}

function grow(block: Element, { text, ends }: Growth): void {
  let box = block
  for (let depth = ends.split('</').length - 1; depth > 0; depth--) box = box.lastElementChild ?? box
  // Of a text that stays in one node the browser keeps the shapes of its letters.
  if (box.lastChild instanceof Text) box.lastChild.appendData(text)
  else box.append(text)
}

export { Markdown as View }

/** Images that are files of the thread get their addresses. */
function withFiles(clean: string, threadId: string | undefined): string {
  if (threadId === undefined || !clean.includes('data-file="')) return clean
  // With the beginning of its tag, which no text has.
  return clean.replace(/<img class="picture" data-file="([^"]*)"/g, (_, path: string) => {
    const url = fileUrl(threadId, decoded(path))
    return `<img class="picture" data-file="${path}" loading="lazy" src="${url.replaceAll('"', '&quot;')}"`
  })
}

function decoded(attribute: string): string {
  return attribute.replace(/&(amp|quot|lt|gt|#\d+);/g, (whole, name: string) => {
    if (name.startsWith('#')) return String.fromCharCode(Number(name.slice(1)))
    return { amp: '&', quot: '"', lt: '<', gt: '>' }[name] ?? whole
  })
}

function codeIn(clean: string): string {
  const box = document.createElement('template')
  box.innerHTML = clean
  return box.content.querySelector('code')?.textContent ?? ''
}
