// The clipboard: texts that buttons copy, answers that readers copy with their formulas as they were written.
import { notify } from './toast.ts'

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
  // Behind an open dialog nothing is selected.
  const place = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body
  place.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (activeElement instanceof HTMLElement) activeElement.focus()
  return isCopied
}
