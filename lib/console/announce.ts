// Announcements for screen readers: sentences as they are read on the page, never tokens and never Markdown.
import { signal } from '@preact/signals'
import { t } from './words.ts'

export const spoken = signal('')

const GAP_MS = 1500
/** How far messages have been announced: a block of their text, and characters of it. */
const told = new Map<string, { block: number; chars: number }>()
let waiting: string[] = []
let isDue = false

export function say(text: string): void {
  waiting.push(t(text))
  speakIn(50)
}

/**
 * Announces a growing answer: each sentence once, when it is complete.
 * @param answer its element, as drawn
 */
export function sayGrowing(id: string, answer: Element, isWhole: boolean): void {
  const blocks = answer.querySelectorAll(':scope > .markdown > .block')
  let { block, chars } = told.get(id) ?? { block: 0, chars: 0 }
  if (block >= blocks.length) return
  const found: string[] = []
  for (; block < blocks.length; block++) {
    const text = wordsOf(blocks[block]!)
    const isLast = block === blocks.length - 1 && !isWhole
    const end = isLast ? lastEnd(text) : text.length
    if (end > chars) found.push(text.slice(chars, end).trim())
    if (isLast) chars = Math.max(chars, end)
    if (isLast) break
    chars = 0
  }
  told.set(id, { block, chars })
  const sentences = found.filter(Boolean)
  if (sentences.length === 0) return
  waiting.push(...sentences)
  speakIn(GAP_MS)
}

/** Marks what is stored already as announced. */
export function isKnown(id: string): void {
  if (!told.has(id)) told.set(id, { block: Number.POSITIVE_INFINITY, chars: 0 })
}

/** A block as it is read aloud: code is announced and not spelled, and cells of a table are kept apart. */
function wordsOf(block: Element): string {
  if (block.querySelector(':scope > .code')) return t('A block of code.')
  const cells = [...block.querySelectorAll('tr')].map((row) =>
    [...row.children].map(({ textContent }) => textContent).join(', ')
  )
  const text = cells.length > 0 ? `${cells.join('. ')}.` : (block.textContent ?? '')
  return text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/\s*\n\s*/g, '\n')
    .trim()
}

/** The end of the last whole sentence or line. */
function lastEnd(text: string): number {
  const found = [...text.matchAll(/[.!?:](?=\s)|[。！？\n]/g)].at(-1)
  return found ? found.index + 1 : 0
}

function speakIn(ms: number): void {
  if (isDue) return
  isDue = true
  setTimeout(speak, ms)
}

function speak(): void {
  isDue = false
  spoken.value = waiting.join(' ').slice(0, 4000)
  waiting = []
}
