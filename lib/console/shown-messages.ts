// The messages of a thread as they are shown, and which run each of them is of.
import { signal } from '@preact/signals'
import { type Frame, Transcript, type TranscriptMessage } from '../client/colloquy.ts'
import { call, colloquy, link } from './api.ts'
import { type Checkpoint, exchangeIn, messagesIn, type Origin, plainText } from './records.ts'
import { begins } from './threads.ts'

/** Maximum messages to look up runs for, if the state does not name them. */
const ORIGINS_MAX = 200

export class ShownMessages {
  readonly messages = signal<readonly TranscriptMessage[]>([])
  readonly artifacts = signal<readonly string[]>([])
  readonly title = signal<string | null>(null)
  /** Of the thread, in the API. */
  readonly #path: string
  readonly #threadId: string
  readonly #transcript = new Transcript()
  readonly #runOf = new Map<string, string>()

  constructor(path: string, threadId: string) {
    this.#path = path
    this.#threadId = threadId
  }

  /** As far as they have arrived: shown by `publish`. */
  get arrived(): readonly TranscriptMessage[] {
    return this.#transcript.messages
  }

  /** Channels of the state beside the messages. */
  get values(): Readonly<Record<string, unknown>> {
    return this.#transcript.values
  }

  runOf(message: TranscriptMessage): string | null {
    const { run_id } = message.raw
    return typeof run_id === 'string' ? run_id : (this.#runOf.get(message.id) ?? null)
  }

  /** The human message of a run, if it is on the page. */
  asked(runId: string): TranscriptMessage | undefined {
    const messages = this.messages.value
    const at = messages.findIndex((one) => this.runOf(one) === runId)
    return messages.slice(0, at + 1).findLast(({ type }) => type === 'human')
  }

  /** Finds the runs of messages whose state does not name them: a graph's state is its own. */
  async findOrigins({ values }: Checkpoint): Promise<void> {
    const messages = messagesIn(values)
    if (messages.every(({ id, run_id }) => run_id || this.#runOf.has(String(id)))) return
    const rows = await call<Origin[]>('GET', `${this.#path}/messages?limit=${ORIGINS_MAX}`).catch(() => [])
    for (const { run_id, content } of rows) if (content?.id) this.#runOf.set(content.id, run_id)
    // Of one that was stopped before its first word there is no record.
    let before: string | undefined
    for (const { id, run_id, type } of messages) {
      const known = typeof run_id === 'string' ? run_id : this.#runOf.get(String(id))
      if (known === undefined && before !== undefined && type !== 'human') this.#runOf.set(String(id), before)
      else before = known
    }
  }

  /** Runs of the messages of a state. */
  runsIn({ values }: Checkpoint): Set<unknown> {
    return new Set(messagesIn(values).map(({ id, run_id }) => run_id ?? this.#runOf.get(String(id))))
  }

  /** The newest state, or none. A link opens nothing that is asked by POST. */
  async stored(signal: AbortSignal): Promise<readonly Checkpoint[]> {
    if (link === null) return call<Checkpoint[]>('POST', `${this.#path}/history`, { limit: 1 }, signal)
    return [await call<Checkpoint>('GET', `${this.#path}/state`, undefined, signal)]
  }

  /** Replaces the whole state. */
  replace(values: Readonly<Record<string, unknown>>): void {
    this.#transcript.replace(values)
    for (const { id, raw } of this.arrived) if (typeof raw.run_id === 'string') this.#runOf.set(id, raw.run_id)
  }

  /** True when something has changed. */
  apply(frame: Frame): boolean {
    return this.#transcript.apply(frame)
  }

  /** The newest message has come with this run. */
  lastIsOf(runId: string): void {
    const last = this.arrived.at(-1)
    if (last && last.type !== 'human' && !this.#runOf.has(last.id)) this.#runOf.set(last.id, runId)
  }

  publish(): void {
    this.messages.value = this.arrived
    const { title, artifacts } = this.values
    const first = this.arrived.find(({ type }) => type === 'human')
    if (typeof title === 'string') this.title.value = title
    else if (first) this.title.value = begins(this.#threadId, plainText(first.content))
    this.artifacts.value = Array.isArray(artifacts) ? artifacts.filter((one) => typeof one === 'string') : []
  }

  async rate(runId: string, messageId: string, rating: 1 | -1 | null, comment?: string): Promise<void> {
    const path = `${this.#path}/runs/${runId}/feedback`
    if (rating === null) await call('DELETE', path)
    else await call('PUT', path, { rating, message_id: messageId, ...(comment && { comment }) })
    const given = rating === null ? null : { rating }
    this.messages.value = this.messages.value.map((message) =>
      message.id === messageId ? { ...message, raw: { ...message.raw, feedback: given } } : message
    )
  }

  /** Questions that may follow; none: nobody makes any. */
  async suggestions(): Promise<readonly string[]> {
    const messages = exchangeIn(this.messages.value)
    const { suggestions } = await colloquy
      // Without the limit of other calls: nobody waits for what a model may take long to write.
      .send('POST', `${this.#path}/suggestions`, { body: { messages } })
      .then((response): Promise<{ suggestions: string[] }> => response.json())
      .catch(() => ({ suggestions: [] }))
    return suggestions
  }
}
