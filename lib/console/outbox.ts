// What a user sends to a conversation: messages, edits and answers. The start of a run is kept until the gateway has answered, also
// across a reload; its idempotency key prevents a second run. Where nothing can be sent, messages wait (unsent.ts).
import { type ReadonlySignal, type Signal, signal } from '@preact/signals'
import { textOf } from './api.ts'
import { type Choice, membersOf } from './choice.ts'
import { ApiError, isFinal, type TranscriptMessage } from '../client/colloquy.ts'
import type { Branches } from './branches.ts'
import { readKept, writeKept } from './device.ts'
import type { Given, Queue } from './queue.ts'
import { answering } from './decisions.ts'
import {
  type Chosen,
  type Extra,
  humanMessage,
  repeatedMessage,
  newId,
  type Question,
  type RunMetadata
} from './records.ts'
import type { ShownMessages } from './shown-messages.ts'
import {
  deliver,
  dropUnsent,
  endIfTakenBack,
  type Message,
  putUnsent,
  sending,
  takeBack,
  type Unsent,
  unsentIn
} from './unsent.ts'

/** The conversation that is written to. */
interface Target {
  readonly threadId: string
  readonly state: Signal<'loading' | 'new' | 'ready' | 'missing' | 'broken'>
  readonly active: ReadonlySignal<string | null>
  readonly messages: ReadonlySignal<readonly TranscriptMessage[]>
  readonly questions: ReadonlySignal<readonly Question[]>
  readonly branches: Branches
  readonly queue: Queue
  readonly shown: ShownMessages
  /** Replaces the shown messages until the next load. */
  show(messages: readonly Message[]): void
  /** A start as it is sent. */
  startOf(body: object): object
  /**
   * Starts a run and follows it.
   * @throws the error of the start; the page then shows the stored state
   */
  run(start: object, key: string): Promise<void>
  /** Gives up a start that has not been answered. */
  stop(): Promise<void>
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
  /** Of the run that goes on with an answer, until it is loaded. */
  readonly answering = signal<RunMetadata | null>(null)
  readonly #target: Target
  /** The message whose start is under way in this conversation. */
  #starting: string | null = null
  /** A message that is not to come back into the composer. */
  #removed: string | null = null

  constructor(target: Target) {
    this.#target = target
  }

  /** Messages that no server has taken. */
  get waiting(): readonly Unsent[] {
    return unsentIn(this.#target.threadId)
  }

  /** A start that has not been answered, and belongs to this conversation. */
  get unsent(): Unsent | null {
    return this.waiting.find(({ isFollowed, refusal }) => isFollowed && refusal === undefined) ?? null
  }

  isStarting({ key }: Unsent): boolean {
    return this.#starting === key
  }

  clear(): void {
    const { unsent } = this
    if (unsent) dropUnsent(this.#target.threadId, unsent.key)
  }

  /** Sends a message if no run is active; it waits where the conversation cannot be loaded, or its files cannot be uploaded. */
  async send(text: string, extras: readonly Extra[], choice: Choice, unloaded: readonly File[] = []): Promise<void> {
    const message = humanMessage(text, extras)
    const { value: state } = this.#target.state
    if (unloaded.length > 0 || this.waiting.length > 0 || state === 'broken' || state === 'loading')
      return this.#hold(message, choice, unloaded)
    try {
      await this.#start(message, { choice, parent: this.#lastRun() })
    } catch (error) {
      // Another device was quicker; the page follows its run by now.
      if (!(error instanceof ApiError) || error.status !== 409 || !this.#target.active.value) throw error
      await this.sendBeside(text, extras, choice, false)
    }
  }

  /** Sends a message while a run is active: behind it, or to the agent at work. */
  async sendBeside(
    text: string,
    extras: readonly Extra[],
    choice: Choice,
    isForNow: boolean,
    unloaded: readonly File[] = []
  ): Promise<void> {
    const { queue, active } = this.#target
    const message = humanMessage(text, extras)
    // Behind a message that has not left.
    if (!active.value || unloaded.length > 0) return this.#hold(message, choice, unloaded, isForNow)
    const one = { key: newId(), message, isFollowed: false, choice }
    if (isForNow) await this.#steer({ ...one, body: null, isGiven: true })
    else await this.#enqueue({ ...one, body: queue.startOf(message, choice) })
  }

  /** Gives a message to the agent at work; queues it where the agent takes none, or has ended. */
  async #steer(one: Given): Promise<void> {
    const { threadId, queue } = this.#target
    try {
      await queue.steer(one)
      // A page that was left meanwhile has kept it.
      dropUnsent(threadId, one.key)
    } catch (error) {
      // The agent may have taken it all the same, which is asked when the network is back.
      if (!isFinal(error)) return putUnsent(threadId, one)
      dropUnsent(threadId, one.key)
      if (error.status !== 409 && error.status !== 404) throw error
      await this.#enqueue({ ...one, body: queue.startOf(one.message, one.choice), isGiven: false })
    }
  }

  /** The page is being left: what the agent has not taken is no longer given to it, and waits. */
  leave(): void {
    for (const one of this.#target.queue.steering.value) putUnsent(this.#target.threadId, one)
  }

  /** Keeps the message until the server has it. Where the network is lost it waits, and is sent under its key. */
  async #enqueue(one: Unsent & { readonly body: object }): Promise<void> {
    const { threadId, queue } = this.#target
    putUnsent(threadId, one)
    try {
      await endIfTakenBack(one.key, await queue.add(one.body, one.key))
    } catch (error) {
      if (!isFinal(error)) return
      dropUnsent(threadId, one.key)
      if (await endIfTakenBack(one.key, null)) return
      throw error
    }
    await queue.refresh()
    dropUnsent(threadId, one.key)
  }

  async #hold(message: Message, choice: Choice, unloaded: readonly File[], isForNow = false): Promise<void> {
    const { threadId, state } = this.#target
    const key = newId()
    if (unloaded.length > 0) await writeKept('files', key, unloaded)
    const names = unloaded.map(({ name }) => name)
    const isNew = state.value === 'new' || this.waiting.some((one) => one.isNew)
    putUnsent(threadId, {
      key,
      message,
      body: null,
      isFollowed: false,
      choice,
      isNew,
      names,
      isForNow: isForNow && names.length === 0
    })
    void deliver()
  }

  /** Replaces a message by another; what followed it stays as another branch. */
  async edit(message: TranscriptMessage, text: string, extras: readonly Extra[]): Promise<void> {
    await this.#branch(message, humanMessage(text, extras))
  }

  /** Sends the run's message again. */
  async retry(runId: string): Promise<void> {
    const asked = this.#target.shown.asked(runId)
    if (asked) await this.#branch(asked, repeatedMessage(asked))
  }

  /** Goes on from what is stored of a run's answer: the same message grows. */
  async continueFrom(runId: string): Promise<void> {
    await this.#run({ continue_from: { run_id: runId }, metadata: { parent_run: runId } })
  }

  /** Answers a question of the agent. With several questions, the others are asked again. */
  async answer(question: Question, value: unknown, chosen: readonly Chosen[]): Promise<void> {
    const isOnly = this.#target.questions.value.length === 1
    const metadata = answering(question, this.#lastRun(), chosen)
    this.answering.value = metadata
    await this.#run({ command: { resume: isOnly ? value : { [question.id]: value } }, metadata })
  }

  async #run(body: object): Promise<void> {
    await this.#begin(() => this.#target.run(this.#target.startOf(body), newId()))
  }

  /** Starts a run. What is written meanwhile waits until that is answered, and then goes behind it, or to its agent. */
  async #begin(start: () => Promise<void>): Promise<void> {
    const { threadId } = this.#target
    sending.add(threadId)
    try {
      await start()
      for (const one of this.waiting) if (one.isForNow && one.choice) this.#give({ ...one, choice: one.choice })
    } finally {
      sending.delete(threadId)
      void deliver()
    }
  }

  /** Gives what has waited to the agent at work. */
  #give(one: Given): void {
    const { threadId } = this.#target
    dropUnsent(threadId, one.key)
    this.#steer({ ...one, isForNow: false, isGiven: true }).catch((error: unknown) =>
      putUnsent(threadId, { ...one, isForNow: false, refusal: textOf(error) })
    )
  }

  /** Sends what a reloaded page has found unanswered; what is refused comes back into the composer. */
  async resend(one: Unsent): Promise<void> {
    this.#target.state.value = 'ready'
    try {
      await this.#deliver(one)
    } catch (error) {
      this.#recall(one, [])
      throw error
    }
  }

  /** Takes a message that waits back into the composer. */
  async recall(one: Unsent): Promise<void> {
    // Who has sent it takes it back.
    if (this.isStarting(one)) return this.#target.stop()
    const kept = await readKept<readonly File[]>('files', one.key)
    const now = this.waiting.find(({ key }) => key === one.key)
    // It was sent meanwhile.
    if (!now) return
    takeBack(this.#target.threadId, now.key)
    // Once they are uploaded, the message has them.
    this.#recall(now, now.names?.length ? (kept ?? []) : [])
  }

  #recall({ message }: Unsent, unloaded: readonly File[]): void {
    this.#target.queue.recall([message], unloaded)
  }

  async remove(one: Unsent): Promise<void> {
    this.#removed = one.key
    if (this.isStarting(one)) return this.#target.stop()
    takeBack(this.#target.threadId, one.key)
  }

  async #branch(message: TranscriptMessage, next: Message): Promise<void> {
    const { branches, messages } = this.#target
    const runId = this.#target.shown.runOf(message)
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
    const isNew = this.#target.state.value === 'new'
    const body = this.#target.startOf({
      input: { messages: [message] },
      ...(isNew && { if_not_exists: 'create' }),
      metadata: { parent_run: parent, ...(branchOf && { branch_of: branchOf }) },
      ...(base && { checkpoint_id: base }),
      ...(choice && membersOf(choice))
    })
    await this.#deliver({ key: newId(), message, body, isFollowed: true, isNew })
  }

  #deliver(one: Unsent): Promise<void> {
    return this.#begin(() => this.#attempt(one))
  }

  /** Keeps the message until the start is answered; a page reloaded before that sends it again. */
  async #attempt(one: Unsent): Promise<void> {
    const { threadId, messages } = this.#target
    putUnsent(threadId, one)
    this.#starting = one.key
    try {
      const isShown = messages.value.some(({ id }) => id === one.message.id)
      if (!isShown) this.#target.show([...messages.value.map(({ raw }) => raw), one.message])
      await this.#target.run(one.body ?? {}, one.key)
      dropUnsent(threadId, one.key)
    } catch (error) {
      // A refusal is an answer; a request cut by a reload is not.
      if (isFinal(error)) dropUnsent(threadId, one.key)
      this.#takeBack(String(one.message.id))
      if (this.#removed !== one.key) throw error
    } finally {
      this.#starting = null
    }
  }

  /** Removes a message that no run has taken. */
  #takeBack(id: string): void {
    const left = this.#target.messages.value.filter((one) => one.id !== id || this.#target.shown.runOf(one) !== null)
    this.#target.show(left.map(({ raw }) => raw))
  }

  /** The run of the last message before `at`. */
  #lastRun(at = this.#target.messages.value.length): string | null {
    const last = this.#target.messages.value
      .slice(0, at)
      .findLast((message) => this.#target.shown.runOf(message) !== null)
    return last ? this.#target.shown.runOf(last) : null
  }
}
