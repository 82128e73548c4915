// What a user sends to a conversation: messages, edits and answers. The start of a run is kept until the gateway has answered, also
// across a reload; its idempotency key prevents a second run.
import type { ReadonlySignal, Signal } from '@preact/signals'
import { type Choice, membersOf } from './choice.ts'
import { ApiError, type TranscriptMessage } from '../client/colloquy.ts'
import type { Branches } from './branches.ts'
import type { Queue } from './queue.ts'
import { type Attached, filesOf, humanMessage, newId, plainText, type Question } from './records.ts'
import { keep, kept } from './tab-storage.ts'

type Message = Readonly<Record<string, unknown>>

interface Unsent {
  readonly key: string
  readonly message: Message
  readonly body: object
}

/** The conversation that is written to. */
interface Target {
  readonly threadId: string
  readonly state: Signal<'loading' | 'new' | 'ready' | 'missing' | 'broken'>
  readonly messages: ReadonlySignal<readonly TranscriptMessage[]>
  readonly questions: ReadonlySignal<readonly Question[]>
  readonly branches: Branches
  readonly queue: Queue
  runOf(message: TranscriptMessage): string | null
  /** The human message of a run, if it is on the page. */
  asked(runId: string): TranscriptMessage | undefined
  /** Replaces the shown messages until the next load. */
  show(messages: readonly Message[]): void
  /**
   * Starts a run and follows it.
   * @throws the error of the start; the page then shows the stored state
   */
  run(body: object, key: string): Promise<void>
}

interface StartOptions {
  readonly choice?: Choice
  /** The checkpoint to start from; none: the newest. */
  readonly base?: string
  /** The run it follows. */
  readonly parent: string | null
  /** The run it is an alternative to. */
  readonly branchOf?: string
}

export class Outbox {
  readonly #target: Target
  readonly #name: string

  constructor(target: Target) {
    this.#target = target
    this.#name = `colloquy-unsent-${target.threadId}`
  }

  /** The message whose start has not been answered. */
  get unsent(): Unsent | null {
    const text = kept(this.#name)
    // Written by `#deliver`.
    return text === null ? null : (JSON.parse(text) as Unsent)
  }

  clear(): void {
    keep(this.#name, '')
  }

  /** Sends a message; the conversation must be loaded, and no run active. */
  async send(text: string, files: readonly Attached[], choice: Choice): Promise<void> {
    await this.#start(humanMessage(text, files), { choice, parent: this.#lastRun() })
  }

  /** Sends a message while a run is active: behind it, or to the agent at work. */
  async sendBeside(text: string, files: readonly Attached[], choice: Choice, isForNow: boolean): Promise<void> {
    const { queue } = this.#target
    const message = humanMessage(text, files)
    await (isForNow ? queue.steer(message, choice) : queue.add(message, choice))
  }

  /** Replaces a message by another; what followed it stays as another branch. */
  async edit(message: TranscriptMessage, text: string): Promise<void> {
    await this.#branch(message, humanMessage(text, filesOf(message)))
  }

  /** Sends the run's message again. */
  async retry(runId: string): Promise<void> {
    const asked = this.#target.asked(runId)
    if (asked) await this.#branch(asked, humanMessage(plainText(asked.content), filesOf(asked)))
  }

  /** Goes on from what is stored of a run's answer: the same message grows. */
  async continueFrom(runId: string): Promise<void> {
    await this.#target.run({ continue_from: { run_id: runId }, metadata: { parent_run: runId } }, newId())
  }

  /** Answers a question of the agent. With several questions, the others are asked again. */
  async answer(id: string, value: unknown): Promise<void> {
    const isOnly = this.#target.questions.value.length === 1
    const metadata = { parent_run: this.#lastRun() }
    await this.#target.run({ command: { resume: isOnly ? value : { [id]: value } }, metadata }, newId())
  }

  /** Sends what a reloaded page has found unanswered. */
  async resend(unsent: Unsent): Promise<void> {
    this.#target.state.value = 'ready'
    await this.#deliver(unsent)
  }

  async #branch(message: TranscriptMessage, next: Message): Promise<void> {
    const { branches, messages } = this.#target
    const runId = this.#target.runOf(message)
    const base = runId && (await branches.checkpointBefore(runId))
    if (!runId || !base) throw new Error('The checkpoint before this message is no longer stored')
    const at = messages.value.findIndex(({ id }) => id === message.id)
    if (at < 0) throw new Error('This message is no longer shown')
    const parent = this.#lastRun(at)
    // Until the run starts, shows the conversation up to there.
    this.#target.show(messages.value.slice(0, at).map(({ raw }) => raw))
    await this.#start(next, { base, parent, branchOf: branches.rootOf(runId) })
  }

  async #start(message: Message, { choice, base, parent, branchOf }: StartOptions): Promise<void> {
    const body = {
      input: { messages: [message] },
      ...(this.#target.state.value === 'new' && { if_not_exists: 'create' }),
      metadata: { parent_run: parent, ...(branchOf && { branch_of: branchOf }) },
      ...(base && { checkpoint_id: base }),
      ...(choice && membersOf(choice))
    }
    await this.#deliver({ key: newId(), message, body })
  }

  /** Keeps the message until the start is answered; a page reloaded before that sends it again. */
  async #deliver(unsent: Unsent): Promise<void> {
    keep(this.#name, JSON.stringify(unsent))
    try {
      const shown = this.#target.messages.value
      const isShown = shown.some(({ id }) => id === unsent.message.id)
      if (!isShown) this.#target.show([...shown.map(({ raw }) => raw), unsent.message])
      await this.#target.run(unsent.body, unsent.key)
      this.clear()
    } catch (error) {
      // A refusal is an answer; a request cut by a reload is not.
      if (error instanceof ApiError) this.clear()
      this.#takeBack(String(unsent.message.id))
      throw error
    }
  }

  /** Removes a message that no run has taken. */
  #takeBack(id: string): void {
    const left = this.#target.messages.value.filter((one) => one.id !== id || this.#target.runOf(one) !== null)
    this.#target.show(left.map(({ raw }) => raw))
  }

  /** The run of the last message before `at`. */
  #lastRun(at = this.#target.messages.value.length): string | null {
    const last = this.#target.messages.value.slice(0, at).findLast((message) => this.#target.runOf(message) !== null)
    return last ? this.#target.runOf(last) : null
  }
}
