// Streaming Markdown on the page: blocks that have not changed keep their elements.
import DOMPurify from 'dompurify'
import { useRef } from 'preact/hooks'
import { GrowingMarkdown } from './growing-markdown.ts'
import { html } from './html.ts'
import { notify } from './toast.ts'

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

/** A block and its sanitised HTML, which is made again only if it has changed. */
interface Block {
  readonly given: string
  readonly clean: string
}

export function Markdown({ text }: { readonly text: string }) {
  const growing = useRef(new GrowingMarkdown())
  const before = useRef<readonly Block[]>([])
  const blocks = growing.current
    .blocks(text)
    .map((given, i) =>
      before.current[i]?.given === given ? before.current[i] : { given, clean: DOMPurify.sanitize(given, RULES) }
    )
  before.current = blocks
  // Elements of their own for each render: a kept one would keep the whole page as it was, by its parent.
  return html`<div class="markdown">${blocks.map(
    ({ clean }, i) => html`<div key=${i} class="block" dir="auto" dangerouslySetInnerHTML=${{ __html: clean }} />`
  )}</div>`
}

/** Copies a code block when its button is clicked. */
export function copyOnClick(event: MouseEvent): void {
  const button = (event.target as Element | null)?.closest?.('[data-copy]')
  const code = button?.closest('.code')?.querySelector('code')?.textContent
  if (!button || code == null) return
  void copyText(code).then((isCopied) => {
    if (!isCopied) return
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
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
