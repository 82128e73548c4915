// Announcements for screen readers: sentences as they are read on the page, never tokens and never Markdown.
import { signal } from '@preact/signals'
import { t } from './words.ts'

export const spoken = signal('')

const GAP_MS = 1500
interface Told {
  readonly block: number
  readonly chars: number
  /** Characters of the block among which no further sentence ends. */
  readonly searched: number
}

/** How far messages have been announced: a block of their text, and characters of it. */
const told = new Map<string, Told>()
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
  const blocks = answer.querySelectorAll(':scope > .markdown .block')
  let { block, chars, searched } = told.get(id) ?? { block: 0, chars: 0, searched: 0 }
  if (block >= blocks.length) return
  const found: string[] = []
  for (; block < blocks.length; block++) {
    const text = textIn(blocks[block]!)
    const isLast = block === blocks.length - 1 && !isWhole
    const end = isLast ? lastEnd(text, Math.max(chars, searched)) : text.length
    if (end > chars) found.push(wordsOf(text.slice(chars, end)))
    // What follows the last character may make it the end of a sentence.
    if (isLast) [chars, searched] = [Math.max(chars, end), text.length - 1]
    if (isLast) break
    chars = searched = 0
  }
  told.set(id, { block, chars, searched })
  const sentences = found.filter(Boolean)
  if (sentences.length === 0) return
  waiting.push(...sentences)
  speakIn(GAP_MS)
}

/** Marks what is stored already as announced. */
export function isKnown(id: string): void {
  if (!told.has(id)) told.set(id, { block: Number.POSITIVE_INFINITY, chars: 0, searched: 0 })
}

/** A block as it is read aloud: code is announced and not spelled, and cells of a table are kept apart. */
function textIn(block: Element): string {
  // What is folded is read by who opens it.
  if (block.closest('details:not([open])') && !block.closest('summary')) return ''
  if (block.querySelector(':scope > .code')) return t('A block of code.')
  const cells = [...block.querySelectorAll('tr')].map((row) =>
    [...row.children].map(({ textContent }) => textContent).join(', ')
  )
  return (cells.length > 0 ? `${cells.join('. ')}.` : (block.textContent ?? '')).trimEnd()
}

const wordsOf = (text: string): string =>
  text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/\s*\n\s*/g, '\n')
    .trim()

/** The end of the last whole sentence or line that ends behind a place; 0: none does. */
function lastEnd(text: string, from: number): number {
  const found = [...text.slice(from).matchAll(/[.!?:](?=\s)|[。！？\n]/g)].at(-1)
  return found ? from + found.index + 1 : 0
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
