// What is copied and saved of the page, and what the buttons in an answer do. It needs nothing of what draws answers.
import { notify } from './toast.ts'

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
