// Where a reader has left a conversation that went on: what came since is counted, and marked where it begins.
import { signal } from '@preact/signals'
import type { TranscriptMessage } from '../client/colloquy.ts'
import { say } from './announce.ts'
import { plainText } from './records.ts'
import { keep, kept } from './tab-storage.ts'
import { t } from './words.ts'

/** Fewer words are no reason for a mark: a reload takes a moment. */
const WORDS_MIN = 25

interface Seen {
  readonly id: string
  readonly chars: number
}

export interface Mark extends Seen {
  readonly words: number
}

export class Away {
  /** Where the new words begin; null: the reader has seen everything. */
  readonly mark = signal<Mark | null>(null)
  readonly #name: string
  #seen: Seen | null
  /** The reader was away, and has not been shown anything since. */
  #isBack = true

  constructor(threadId: string) {
    this.#name = `colloquy.seen.${threadId}`
    const text = kept(this.#name)
    // Written by `leave`.
    this.#seen = text === null ? null : (JSON.parse(text) as Seen)
  }

  /** The page shows these now. */
  shows(messages: readonly TranscriptMessage[]): void {
    const last = messages.findLast(({ type }) => type === 'ai')
    if (!last || document.hidden) return
    if (this.#isBack && this.#seen) this.#compare(messages, this.#seen)
    this.#isBack = false
    this.#seen = { id: last.id, chars: plainText(last.content).length }
  }

  #compare(messages: readonly TranscriptMessage[], { id, chars }: Seen): void {
    const at = messages.findIndex((one) => one.id === id)
    if (at < 0) return
    const texts = messages
      .slice(at)
      .filter(({ type }) => type === 'ai')
      .map(({ content }) => plainText(content))
    const words =
      texts
        .map((text, i) => (i === 0 ? text.slice(chars) : text))
        .join(' ')
        .match(/\S+/g)?.length ?? 0
    if (words < WORDS_MIN) return
    this.mark.value = { id, chars, words }
    say(awayWords(words))
  }

  /** The reader leaves: the tab is hidden, closed or reloaded. */
  leave(): void {
    this.#isBack = true
    if (this.#seen) keep(this.#name, JSON.stringify(this.#seen))
  }

  /** The conversation goes on by the reader. */
  clear(): void {
    this.mark.value = null
  }
}

export const awayWords = (words: number): string => t('{} words came while you were away', words.toLocaleString())
