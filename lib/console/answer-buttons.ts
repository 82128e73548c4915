// The buttons in an answer: of its blocks of code, of its footnotes.
import { copyText } from './clipboard.ts'
import { saveText } from './files.ts'
import { t } from './words.ts'

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
  button.textContent = t('Copied')
  setTimeout(() => {
    button.textContent = t('Copy')
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

function toNote(button: HTMLElement, name: string): void {
  const notes = button.closest('.message, .panel')?.querySelectorAll<HTMLElement>('[data-note-text]') ?? []
  const note = [...notes].find(({ dataset }) => dataset.noteText === name)
  note?.scrollIntoView({ block: 'center' })
  note?.focus()
}
