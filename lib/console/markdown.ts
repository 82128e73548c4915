// Streaming Markdown on the page: blocks that have not changed keep their elements.
import DOMPurify from 'dompurify'
import { useMemo, useRef } from 'preact/hooks'
import { awayWords, type Mark } from './away.ts'
import { fileUrl } from './files.ts'
import { GrowingMarkdown, rich } from './growing-markdown.ts'
import { html } from './html.ts'
import { Later } from './later.ts'
import { codeHtml, formulaHtml, richness } from './rich.ts'
import { notify } from './toast.ts'

const diagram = () => import('./sandbox.ts').then(({ Diagram: View }) => ({ View }))

rich.code = codeHtml
rich.formula = formulaHtml

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
    .map((given, i) =>
      before[i]?.given === given ? before[i] : { given, clean: withFiles(DOMPurify.sanitize(given, RULES), threadId) }
    )
  current.blocks = blocks
  // Elements of their own for each render: a kept one would keep the whole page as it was, by its parent.
  const leftAt = useMemo(() => (left ? new GrowingMarkdown().blocks(text.slice(0, left.chars)).length - 1 : -1), [left])
  return html`<div class="markdown">${blocks.map(({ given, clean }, i) => {
    const isLeft = left && i === leftAt
    const block = html`<div key=${i} class=${isLeft ? 'block left-off' : 'block'} data-left=${isLeft ? awayWords(left.words) : undefined} dir="auto" dangerouslySetInnerHTML=${{ __html: clean }} />`
    return given.startsWith('<div class="code" data-diagram')
      ? html`<${Later} key=${`d${i}`} load=${diagram} props=${{ source: codeIn(clean), children: block }} meanwhile=${block} />`
      : block
  })}</div>`
}

/** Images that are files of the thread get their addresses. */
function withFiles(clean: string, threadId: string | undefined): string {
  if (threadId === undefined || !clean.includes('data-file="')) return clean
  return clean.replace(/ data-file="([^"]*)"/g, (_, path: string) => {
    const url = fileUrl(threadId, decoded(path))
    return ` data-file="${path}" loading="lazy" src="${url.replaceAll('"', '&quot;')}"`
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

// ---------------------------------------------------------------------------------------------- what buttons do

/** Copies, wraps or saves a block of code, or goes to a footnote, when its button is clicked. */
export function onMarkdownClick(event: MouseEvent): void {
  const button = (event.target as Element | null)?.closest?.('button')
  if (!button) return
  const { copy, wrap, save, note } = button.dataset
  const box = button.closest<HTMLElement>('.code')
  if (note !== undefined) return toNote(button, note)
  if (!box) return
  if (wrap !== undefined) button.setAttribute('aria-pressed', String(box.classList.toggle('wrapped')))
  const code = box.querySelector('code')?.textContent ?? ''
  if (save !== undefined) saveText(code, `code.${ENDINGS[box.dataset.lang ?? ''] ?? (box.dataset.lang || 'txt')}`)
  if (copy !== undefined) void copyText(code).then((isCopied) => isCopied && showDone(button))
}

function showDone(button: HTMLElement): void {
  button.textContent = 'Copied'
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 1500)
}

/** Endings of files whose language has another name. */
const ENDINGS: Readonly<Record<string, string>> = {
  text: 'txt',
  bash: 'sh',
  shell: 'sh',
  console: 'sh',
  javascript: 'js',
  typescript: 'ts',
  python: 'py',
  golang: 'go',
  rust: 'rs',
  markdown: 'md',
  yaml: 'yml',
  ruby: 'rb',
  'c++': 'cpp',
  csharp: 'cs',
  kotlin: 'kt'
}

/** Saves a text as a file of this name. */
export function saveText(text: string, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  link.download = name.replace(/[^\p{L}\p{N}.-]+/gu, '_')
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

function toNote(button: HTMLElement, name: string): void {
  const notes = button.closest('.message, .panel')?.querySelectorAll<HTMLElement>('[data-note-text]') ?? []
  const note = [...notes].find(({ dataset }) => dataset.noteText === name)
  note?.scrollIntoView({ block: 'center' })
  note?.focus()
}

/** What is copied of an answer has its formulas as they were written. */
export function onCopy(event: ClipboardEvent): void {
  const selection = getSelection()
  if (!selection || selection.rangeCount === 0 || !event.clipboardData) return
  const part = selection.getRangeAt(0).cloneContents()
  const formulas = part.querySelectorAll<HTMLElement>('[data-source]')
  if (formulas.length === 0) return
  for (const formula of formulas) formula.replaceWith(formula.dataset.source ?? '')
  const box = document.createElement('div')
  box.append(part)
  box.className = 'spoken'
  document.body.append(box)
  event.clipboardData.setData('text/plain', box.innerText)
  event.clipboardData.setData('text/html', box.innerHTML)
  box.remove()
  event.preventDefault()
}

/** Copies a text. False: the browser has refused, and the page has said so. */
export async function copyText(text: string): Promise<boolean> {
  // It exists only on secure origins, and may be forbidden; then a selection is copied.
  const isCopied = await navigator.clipboard?.writeText(text).then(
    () => true,
    () => false
  )
  if (isCopied || copySelected(text)) return true
  notify('The browser did not allow copying. Select the text and copy it by hand.', true)
  return false
}

function copySelected(text: string): boolean {
  const area = document.createElement('textarea')
  const { activeElement } = document
  area.value = text
  document.body.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (activeElement instanceof HTMLElement) activeElement.focus()
  return isCopied
}
