// Messages that wait for the run in flight: queued on the server, so that every device sees them, or on their way to the agent at work.
import { type ReadonlySignal, signal } from '@preact/signals'
import { isFinal, type TranscriptMessage } from '../client/colloquy.ts'
import { call, colloquy } from './api.ts'
import { type Choice, membersOf } from './choice.ts'
import { focusComposer, html, Icon } from './html.ts'
import { type Extra, extrasIn, isInFlight, lookOf, plainText, type Run } from './records.ts'
import { notifyFailure } from './toast.ts'
import type { Message, Unsent } from './unsent.ts'
import { t } from './words.ts'

const LISTED = 20

/** What is taken back from the queue, to be written anew. */
interface Draft {
  readonly text: string
  readonly extras: readonly Extra[]
  /** Files that are not uploaded yet. */
  readonly unloaded: readonly File[]
}

/** A message on its way to the agent at work. */
export type Given = Unsent & { readonly choice: Choice }

export class Queue {
  /** Runs that wait for the active one, the next one first. */
  readonly runs = signal<readonly Run[]>([])
  /** Messages that the agent at work has not taken yet. */
  readonly steering = signal<readonly Given[]>([])
  readonly recalled = signal<Draft | null>(null)
  readonly #path: string
  readonly #active: ReadonlySignal<string | null>

  /** `path`: of the thread's runs. */
  constructor(path: string, active: ReadonlySignal<string | null>) {
    this.#path = path
    this.#active = active
  }

  /** Takes what waits behind `current` from a list of runs, newest first. */
  take(runs: readonly Run[], current: string | undefined): void {
    const waiting = runs.filter(({ status, run_id }) => status === 'pending' && run_id !== current)
    this.runs.value = waiting.filter((run) => messagesOf(run).length > 0).toReversed()
  }

  async refresh(): Promise<void> {
    const runs = await call<Run[]>('GET', `${this.#path}?limit=${LISTED}`).catch(() => null)
    if (runs && this.#active.value !== null) this.take(runs, this.#active.value)
  }

  /** The start of a message that goes behind everything that waits already. */
  startOf(message: Message, choice: Choice): object {
    const parent_run = this.runs.value.at(-1)?.run_id ?? this.#active.value
    return {
      input: { messages: [message] },
      multitask_strategy: 'enqueue',
      metadata: { parent_run },
      on_disconnect: 'continue',
      ...membersOf(choice)
    }
  }

  /** Queues what `startOf` has made. @returns the place of its run */
  async add(body: object, key: string): Promise<string | null> {
    const { headers } = await colloquy.request('POST', this.#path, { body, headers: { 'Idempotency-Key': key } })
    return headers.get('content-location')
  }

  /** Gives a message to the agent at work. @throws where it does not take it */
  async steer(one: Given): Promise<void> {
    this.steering.value = [...this.steering.value, one]
    try {
      // Answered when the agent has taken it, which may take as long as a tool does.
      await colloquy.send('POST', `${this.#path}/${this.#active.value}/input`, { body: { messages: [one.message] } })
    } finally {
      this.steering.value = this.steering.value.filter(({ key }) => key !== one.key)
    }
  }

  /** @returns false if the server has refused it: its turn has come meanwhile */
  async remove(run: Run): Promise<boolean> {
    this.runs.value = this.runs.value.filter((one) => one !== run)
    const isRemoved = await call('DELETE', `${this.#path}/${run.run_id}`).then(
      () => true,
      (error: unknown) => {
        notifyFailure(error)
        // Lost, it may have been removed, and would else be nowhere.
        return !isFinal(error)
      }
    )
    await this.refresh()
    return isRemoved && !this.runs.value.some(({ run_id }) => run_id === run.run_id)
  }

  /** Takes what was asked back into the composer. */
  async edit(run: Run): Promise<void> {
    if (await this.remove(run)) this.recall(messagesOf(run))
  }

  /** Hands messages to the composer, as one. */
  recall(messages: readonly Message[], unloaded: readonly File[] = []): void {
    const text = messages.map(textOf).filter(Boolean).join('\n\n')
    this.recalled.value = { text, extras: messages.flatMap(extrasIn), unloaded }
  }
}

/** What people have said with which a run was asked for. */
export function messagesOf({ kwargs }: Run): readonly Message[] {
  const messages = kwargs?.input?.messages
  return Array.isArray(messages) ? messages.filter(({ type }) => type === 'human') : []
}

const textOf = ({ content }: Message) => plainText((content ?? '') as TranscriptMessage['content'])

/** Messages in one line: their words, and the names of what is beside them. */
const lineOf = (messages: readonly Message[], names: readonly string[] = []) =>
  [...messages.flatMap((one) => [textOf(one), ...extrasIn(one).map((extra) => lookOf(extra).name)]), ...names]
    .filter(Boolean)
    .join(' · ')

/** Of runs, newest first, the one whose turn it is. */
export function currentOf(runs: readonly Run[]): Run | undefined {
  return runs.find(({ status }) => status === 'running') ?? runs.findLast(isInFlight)
}

/** Messages that no server has taken. */
interface Waiting {
  readonly waiting: readonly Unsent[]
  isStarting(one: Unsent): boolean
  recall(one: Unsent): Promise<void>
  remove(one: Unsent): Promise<void>
}

interface QueueListProps {
  readonly queue: Queue
  readonly outbox: Waiting
  /** The server has not been reached for a while. */
  readonly isLost: boolean
  /** Ends the active run, so that the next one starts. */
  readonly onInterrupt: () => void
}

export function QueueList({ queue, outbox, isLost, onInterrupt }: QueueListProps) {
  // One that is being sent is none of them until that fails.
  const queued = new Set(queue.runs.value.flatMap(messagesOf).map(({ id }) => id))
  // Nor one that the list of runs has already, before its own request is answered.
  const unsent = outbox.waiting.filter((one) => !queued.has(one.message.id) && (isLost || !outbox.isStarting(one)))
  if (queue.runs.value.length + queue.steering.value.length + unsent.length === 0) return null
  // A button that is pressed by a key goes, and the focus would go with it.
  const onClick = ({ detail }: MouseEvent) => detail === 0 && focusComposer()
  return html`<ol class="queue" aria-label="Waiting messages" onClick=${onClick}>
    ${queue.steering.value.map(({ message }) => html`<li key=${message.id}><${Icon} name="send" /><span dir="auto">${lineOf([message])}</span><small>at the agent’s next step</small></li>`)}
    ${queue.runs.value.map(
      (run, i) => html`<li key=${run.run_id}>
        <${Icon} name="queue" /><span dir="auto">${lineOf(messagesOf(run))}</span>
        ${i === 0 && html`<button class="link" onClick=${onInterrupt} title="Stops the answer, and sends this">Send now</button>`}
        <button class="quiet" title="Edit" aria-label="Edit the waiting message" onClick=${() => void queue.edit(run)}><${Icon} name="pen" /></button>
        <button class="quiet" title="Remove" aria-label="Remove the waiting message" onClick=${() => void queue.remove(run)}><${Icon} name="close" /></button>
      </li>`
    )}
    ${unsent.map(
      (one) => html`<li key=${one.key} class=${one.refusal ? 'refused' : ''}>
        <${Icon} name="queue" /><span dir="auto">${lineOf([one.message], one.names)}</span>
        <small>${one.refusal ?? t('not sent yet')}</small>
        <button class="quiet" title="Edit" aria-label="Edit the unsent message" onClick=${() => void outbox.recall(one)}><${Icon} name="pen" /></button>
        <button class="quiet" title="Remove" aria-label="Remove the unsent message" onClick=${() => void outbox.remove(one)}><${Icon} name="close" /></button>
      </li>`
    )}
  </ol>`
}
