// Announcements for screen readers: sentences, never tokens.
import { signal } from '@preact/signals'

export const spoken = signal('')

const GAP_MS = 1500
const told = new Map<string, number>()
let waiting: string[] = []
let isDue = false

export function say(text: string): void {
  waiting.push(text)
  speakIn(50)
}

/** Announces growing text: each sentence once, when it is complete. */
export function sayGrowing(id: string, text: string, isWhole: boolean): void {
  const from = told.get(id) ?? 0
  const to = isWhole ? text.length : lastEnd(text)
  if (to <= from) return
  told.set(id, to)
  waiting.push(plain(text.slice(from, to)))
  speakIn(GAP_MS)
}

/** Marks text that was there before as announced. */
export function isKnown(id: string, length: number): void {
  told.set(id, length)
}

function lastEnd(text: string): number {
  const found = [...text.slice(-2000).matchAll(/[.!?:](?=\s)|\n\n/g)].at(-1)
  return found ? Math.max(0, text.length - 2000) + found.index + found[0].length : 0
}

function plain(text: string): string {
  return text
    .replace(/[*_`#>|]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
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
