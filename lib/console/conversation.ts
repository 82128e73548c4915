// One open thread: its messages, its active run, and the actions on both. It loads the thread's state and joins the run in
// flight with a snapshot, so that a reload continues where the text was.
import { batch, signal } from '@preact/signals'
import {
  ApiError,
  type Connection,
  type Frame,
  type RunStream,
  Transcript,
  type TranscriptMessage
} from '../client/colloquy.ts'
import { isKnown, say, sayGrowing } from './announce.ts'
import { call, colloquy, textOf } from './api.ts'
import { Branches } from './branches.ts'
import { Outbox, type Unsent } from './outbox.ts'
import {
  type Attached,
  type Checkpoint,
  filesOf,
  humanMessage,
  isFailed,
  isInFlight,
  messagesIn,
  newId,
  type Origin,
  plainText,
  type Question,
  type Run
} from './records.ts'
import { refresh } from './threads.ts'
import { notifyFailure } from './toast.ts'

const MODES = ['messages-tuple', 'custom']
const RUNS_MAX = 100
/** Maximum messages to look up runs for, if the state does not name them. */
const ORIGINS_MAX = 200
/** Interval for polling an idle thread for runs started elsewhere, in ms. */
const LOOK_MS = 3000

/** Tells other tabs about changes before their next poll. */
const tabs = new BroadcastChannel('colloquy-runs')

/** Characters of a message sent for suggestions. */
const SUGGESTION_CHARS = 2000

export class Conversation {
  readonly threadId: string
  readonly messages = signal<readonly TranscriptMessage[]>([])
  readonly state = signal<'loading' | 'new' | 'ready' | 'missing' | 'broken'>('loading')
  readonly runs = signal<readonly Run[]>([])
  /** The active run; null: none. `''`: being started. */
  readonly active = signal<string | null>(null)
  /** A message waits until the conversation is loaded. */
  readonly isWaiting = signal(false)
  readonly connection = signal<Connection>({ state: 'closed', failures: 0 })
  /** The error of the newest run. */
  readonly failure = signal<string | null>(null)
  readonly questions = signal<readonly Question[]>([])
  readonly artifacts = signal<readonly string[]>([])
  readonly title = signal<string | null>(null)
  readonly suggestions = signal<readonly string[]>([])
  readonly tokens = signal<number | null>(null)
  /** The agent's progress messages, from custom events. */
  readonly progress = signal<string | null>(null)
  readonly #transcript = new Transcript()
  readonly branches: Branches
  readonly #outbox: Outbox
  #runOf = new Map<string, string>()
  #stream: RunStream | null = null
  /** Loads and streams so far: what a load has read is dropped if another has begun since. */
  #readings = 0
  /** The newest load, while it is under way. */
  #loading: Promise<void> | null = null
  #isClosed = false
  #isDue = false
  #looks: ReturnType<typeof setInterval> | null = null
  readonly #onTab = ({ data }: MessageEvent) => void this.#heard(data)
  readonly #onVisible = () => void this.#look()
  readonly #onOnline = () => this.retryNow()

  constructor(threadId: string, isNew: boolean) {
    this.threadId = threadId
    this.branches = new Branches(this.#path, this.runs)
    this.#outbox = new Outbox(threadId)
    if (isNew) this.state.value = 'new'
    tabs.addEventListener('message', this.#onTab)
    document.addEventListener('visibilitychange', this.#onVisible)
    addEventListener('online', this.#onOnline)
    this.#looks = setInterval(() => void this.#look(), LOOK_MS)
    if (!isNew) void this.load()
  }

  close(): void {
    this.#isClosed = true
    this.#stream?.close()
    if (this.#looks) clearInterval(this.#looks)
    tabs.removeEventListener('message', this.#onTab)
    document.removeEventListener('visibilitychange', this.#onVisible)
    removeEventListener('online', this.#onOnline)
  }

  // ------------------------------------------------------------------------------------------------ reading

  /** Loads the stored state, and joins the run in flight if there is one. */
  load(): Promise<void> {
    const loading = this.#load(++this.#readings).finally(() => {
      if (this.#loading === loading) this.#loading = null
    })
    this.#loading = loading
    return loading
  }

  async #load(reading: number): Promise<void> {
    const isOld = () => this.#isClosed || reading !== this.#readings
    try {
      const [runs, history] = await Promise.all([
        call<Run[]>('GET', `${this.#path}/runs?limit=${RUNS_MAX}`),
        call<Checkpoint[]>('POST', `${this.#path}/history`, { limit: 1 })
      ])
      if (isOld()) return
      const [newest] = history
      if (newest) await this.#findOrigins(newest)
      if (newest) await this.branches.find(runs, this.#runsIn(newest))
      if (isOld()) return
      batch(() => {
        this.runs.value = runs
        if (newest) this.#show(newest)
        this.state.value = newest || runs.length > 0 || this.#outbox.unsent ? 'ready' : this.#missing
        const last = runs[0]
        this.failure.value = last && isFailed(last) ? (last.error ?? 'The run failed') : null
      })
      const { unsent } = this.#outbox
      if (unsent && this.active.value === null) return void this.#resend(unsent)
      const inFlight = runs.find(isInFlight)
      if (inFlight) void this.#follow(colloquy.watch(inFlight, this.#watching(true)), inFlight.run_id)
      void this.#countTokens()
    } catch (error) {
      if (isOld()) return
      const { unsent } = this.#outbox
      if (isMissing(error) && unsent && this.active.value === null) return void this.#resend(unsent)
      if (isMissing(error)) this.state.value = this.#missing
      else if (this.state.value === 'loading') this.state.value = 'broken'
    }
  }

  /** A new thread is missing until its first message has been taken. */
  get #missing(): 'new' | 'missing' {
    return this.state.value === 'new' ? 'new' : 'missing'
  }

  /** Finds the runs of messages whose state does not name them: a graph's state is its own. */
  async #findOrigins({ values }: Checkpoint): Promise<void> {
    if (messagesIn(values).every(({ id, run_id }) => run_id || this.#runOf.has(String(id)))) return
    const rows = await call<Origin[]>('GET', `${this.#path}/messages?limit=${ORIGINS_MAX}`).catch(() => [])
    for (const { run_id, content } of rows) if (content?.id) this.#runOf.set(content.id, run_id)
  }

  #runsIn({ values }: Checkpoint): Set<unknown> {
    return new Set(messagesIn(values).map(({ id, run_id }) => run_id ?? this.#runOf.get(String(id))))
  }

  #show({ values, tasks }: Checkpoint): void {
    this.#transcript.replace(values)
    for (const { id, raw, content } of this.#transcript.messages) {
      if (typeof raw.run_id === 'string') this.#runOf.set(id, raw.run_id)
      if (this.state.value !== 'ready') isKnown(id, plainText(content).length)
    }
    this.questions.value = tasks.flatMap(({ interrupts }) => interrupts)
    this.#publish()
  }

  #publish(): void {
    batch(() => {
      this.messages.value = this.#transcript.messages
      const { title, artifacts } = this.#transcript.values
      if (typeof title === 'string') this.title.value = title
      this.artifacts.value = Array.isArray(artifacts) ? artifacts.filter((one) => typeof one === 'string') : []
    })
  }

  runOf(message: TranscriptMessage): string | null {
    const { run_id } = message.raw
    return typeof run_id === 'string' ? run_id : (this.#runOf.get(message.id) ?? null)
  }

  /** Looks for a run started elsewhere. Not during a load: on a slow link none would ever end if each look began another. */
  async #look(): Promise<void> {
    if (document.hidden || this.active.value !== null || this.#isClosed || this.#loading) return
    if (this.state.value === 'broken') return this.load()
    if (this.state.value !== 'ready') return
    const found = await call<Run[]>('GET', `${this.#path}/runs?limit=1`).catch(() => null)
    if (!found || this.active.value !== null || this.#isClosed || this.#loading) return
    const [newest] = found
    const known = this.runs.value.find(({ run_id }) => run_id === newest?.run_id)
    // None any more: the thread was deleted elsewhere.
    if (known?.updated_at !== newest?.updated_at || (!newest && this.runs.value.length > 0)) await this.load()
  }

  #heard(data: { threadId?: string; what?: string }): void {
    if (data.threadId === this.threadId && this.active.value === null) void this.load()
  }

  async #countTokens(): Promise<void> {
    const usage = await call<{ total_tokens: number }>('GET', `${this.#path}/token-usage`).catch(() => null)
    if (usage) this.tokens.value = usage.total_tokens
  }

  // ---------------------------------------------------------------------------------------------- following

  /** Follows a run until it has ended. */
  async #follow(stream: RunStream, runId: string | null): Promise<void> {
    this.#stream?.close()
    this.#stream = stream
    this.#readings++
    batch(() => {
      this.active.value = runId ?? ''
      this.failure.value = null
      this.questions.value = []
      this.suggestions.value = []
      this.progress.value = null
    })
    const begun = performance.now()
    let id = runId
    try {
      if (id === null) {
        id = (await stream.started).run_id
        this.active.value = id
        this.state.value = 'ready'
        tabs.postMessage({ threadId: this.threadId, what: 'begun' })
        void refresh().catch(() => {})
      }
      for await (const frame of stream) this.#take(frame, id)
    } catch (error) {
      if (this.#isClosed || this.#stream !== stream) return
      this.#ended(stream)
      if (id === null) throw error
      this.failure.value = textOf(error)
      return
    }
    if (this.#isClosed || this.#stream !== stream) return
    await this.load()
    // After loading, so that no text is missing in between.
    this.#ended(stream)
    tabs.postMessage({ threadId: this.threadId, what: 'ended' })
    void refresh().catch(() => {})
    const run = this.runs.value.find(({ run_id }) => run_id === id)
    if (run?.status === 'success') void this.#suggest()
    if (run?.status === 'success' && performance.now() - begun > 1000) say('The answer is complete.')
    if (run?.status === 'interrupted') say('The run was stopped.')
  }

  #ended(stream: RunStream): void {
    if (this.#stream !== stream) return
    batch(() => {
      this.#stream = null
      this.active.value = null
      this.progress.value = null
      this.connection.value = { state: 'closed', failures: 0 }
    })
  }

  #take(frame: Frame, runId: string): void {
    if (frame.event === 'error') this.failure.value = String(frame.data?.message ?? 'The run failed')
    if (frame.event === 'custom') this.#tellProgress(frame.data)
    if (!this.#transcript.apply(frame)) return
    const last = this.#transcript.messages.at(-1)
    if (last && last.type !== 'human' && !this.#runOf.has(last.id)) this.#runOf.set(last.id, runId)
    if (this.#isDue) return
    // At most once per animation frame; hidden pages a few times a second.
    this.#isDue = true
    const draw = () => {
      this.#isDue = false
      if (this.#isClosed) return
      this.#publish()
      const newest = this.#transcript.messages.at(-1)
      if (newest?.type === 'ai') sayGrowing(newest.id, plainText(newest.content), !newest.isPartial)
    }
    if (document.hidden) setTimeout(draw, 250)
    else requestAnimationFrame(draw)
  }

  #tellProgress(data: unknown): void {
    if (typeof data === 'string') this.progress.value = data
    if (typeof data !== 'object' || data === null) return
    const { message, percent } = data as Record<string, unknown>
    if (typeof message === 'string') this.progress.value = message
    else if (typeof percent === 'number') this.progress.value = `${percent} %`
  }

  #watching(snapshot: boolean) {
    return {
      modes: MODES,
      snapshot,
      onConnection: (connection: Connection) => {
        this.connection.value = connection
      }
    }
  }

  retryNow(): void {
    this.#stream?.retryNow()
    if (this.state.value === 'broken') void this.load()
  }

  // ------------------------------------------------------------------------------------------------- acting

  /**
   * Waits until what was said is there, which a message follows.
   *
   * @returns false if no message can be sent now: the conversation was left, or a run is active
   * @throws if it cannot be loaded
   */
  async canSend(): Promise<boolean> {
    if (this.isWaiting.value) return false
    this.isWaiting.value = true
    try {
      if (this.state.value === 'broken' && !this.#loading) void this.load()
      while (this.#loading && !this.#isClosed && this.#isUnknown) await this.#loading
    } finally {
      this.isWaiting.value = false
    }
    if (this.#isClosed || this.active.value !== null) return false
    if (this.#isUnknown) throw new Error('The conversation could not be loaded')
    return true
  }

  get #isUnknown(): boolean {
    return this.state.value === 'loading' || this.state.value === 'broken'
  }

  /** Sends a message, if it `canSend`. */
  async send(text: string, files: readonly Attached[], model: string | null): Promise<void> {
    await this.#start(humanMessage(text, files), { model, parent: this.#lastRun() })
  }

  /** Replaces a message by another; what followed it stays as another branch. */
  async edit(message: TranscriptMessage, text: string): Promise<void> {
    await this.#again(message, humanMessage(text, filesOf(message)))
  }

  /** The human message of a run, if it is on the page. */
  asked(runId: string): TranscriptMessage | undefined {
    const messages = this.messages.value
    const at = messages.findIndex((one) => this.runOf(one) === runId)
    return messages.slice(0, at + 1).findLast(({ type }) => type === 'human')
  }

  /** Sends the run's message again. */
  async retry(runId: string): Promise<void> {
    const asked = this.asked(runId)
    if (asked) await this.#again(asked, humanMessage(plainText(asked.content), filesOf(asked)))
  }

  /** With several questions, the others are asked again. */
  async answer(id: string, value: unknown): Promise<void> {
    const isOnly = this.questions.value.length === 1
    const metadata = { parent_run: this.#lastRun() }
    await this.#run({ command: { resume: isOnly ? value : { [id]: value } }, metadata })
  }

  async stop(): Promise<void> {
    const stream = this.#stream
    if (!stream) return
    // Not sent yet: it is taken back.
    if (this.active.value === '' && this.connection.value.failures > 0) {
      this.#outbox.clear()
      return stream.close()
    }
    const run = await stream.started.catch(() => null)
    try {
      if (run) await colloquy.cancel(run)
    } catch (error) {
      // The run has just ended by itself.
      if (!(error instanceof ApiError && error.status === 409)) notifyFailure(error)
    }
  }

  async #again(message: TranscriptMessage, next: Unsent['message']): Promise<void> {
    const runId = this.runOf(message)
    const base = runId && (await this.branches.checkpointBefore(runId))
    if (!runId || !base) throw new Error('The checkpoint before this message is no longer stored')
    const at = this.messages.value.findIndex(({ id }) => id === message.id)
    if (at < 0) throw new Error('This message is no longer shown')
    const parent = this.#lastRun(at)
    // Until the run starts, shows the conversation up to there.
    this.#transcript.replace({
      ...this.#transcript.values,
      messages: this.messages.value.slice(0, at).map(({ raw }) => raw)
    })
    await this.#start(next, { base, parent, branchOf: this.branches.rootOf(runId) })
  }

  async #start(
    message: Unsent['message'],
    more: { model?: string | null; base?: string; parent: string | null; branchOf?: string }
  ): Promise<void> {
    const body = {
      input: { messages: [message] },
      ...(this.state.value === 'new' && { if_not_exists: 'create' }),
      metadata: { parent_run: more.parent, ...(more.branchOf && { branch_of: more.branchOf }) },
      ...(more.base && { checkpoint_id: more.base }),
      ...(more.model && { context: { model_name: more.model } })
    }
    await this.#sendOff({ key: newId(), message, body })
  }

  /** Keeps the message until the start is answered; a page reloaded before that sends it again. */
  async #sendOff(unsent: Unsent): Promise<void> {
    this.#outbox.keep(unsent)
    try {
      this.#transcript.apply({ event: 'messages', data: [unsent.message, {}], id: null })
      this.#publish()
      await this.#run(unsent.body, unsent.key)
      this.#outbox.clear()
    } catch (error) {
      // A refusal is an answer; a request cut by a reload is not.
      if (error instanceof ApiError) this.#outbox.clear()
      this.#takeBack(String(unsent.message.id))
      throw error
    }
  }

  /** Removes a message that no run has taken. */
  #takeBack(id: string): void {
    const left = this.#transcript.messages.filter((message) => message.id !== id || this.runOf(message) !== null)
    this.#transcript.replace({ ...this.#transcript.values, messages: left.map(({ raw }) => raw) })
    this.#publish()
  }

  async #resend(unsent: Unsent): Promise<void> {
    this.state.value = 'ready'
    await this.#sendOff(unsent).catch(notifyFailure)
  }

  /** @throws the error of the start; the page then shows the stored state */
  async #run(body: object, key = newId()): Promise<void> {
    const stream = colloquy.start(
      this.threadId,
      { ...body, stream_mode: MODES, on_disconnect: 'continue' },
      { ...this.#watching(false), key }
    )
    const following = this.#follow(stream, null)
    following.catch(() => {})
    await stream.started.catch(async (error: unknown) => {
      if (error instanceof ApiError) this.#outbox.clear()
      await this.load()
      throw error
    })
  }

  /** The run of the last message before `at`. */
  #lastRun(at = this.messages.value.length): string | null {
    const last = this.messages.value.slice(0, at).findLast((message) => this.runOf(message) !== null)
    return last ? this.runOf(last) : null
  }

  async rate(runId: string, messageId: string, rating: 1 | -1 | null): Promise<void> {
    const path = `${this.#path}/runs/${runId}/feedback`
    if (rating === null) await call('DELETE', path)
    else await call('PUT', path, { rating, message_id: messageId })
    const given = rating === null ? null : { rating }
    this.messages.value = this.messages.value.map((message) =>
      message.id === messageId ? { ...message, raw: { ...message.raw, feedback: given } } : message
    )
  }

  async #suggest(): Promise<void> {
    const messages = this.messages.value
      .filter(({ type, content }) => (type === 'human' || type === 'ai') && plainText(content))
      .slice(-6)
      .map(({ type, content }) => ({
        role: type === 'human' ? 'user' : 'assistant',
        content: plainText(content).slice(0, SUGGESTION_CHARS)
      }))
    const { suggestions } = await call<{ suggestions: string[] }>('POST', `${this.#path}/suggestions`, {
      messages
    }).catch(() => ({ suggestions: [] }))
    if (this.active.value === null) this.suggestions.value = suggestions
  }

  /** Switches to the branch of a run: the thread continues from its end. */
  async switchTo(runId: string): Promise<void> {
    const checkpoint_id = await this.branches.endOf(runId)
    if (!checkpoint_id) throw new Error('That branch is not stored any more')
    await call('POST', `${this.#path}/state`, { checkpoint_id, values: {} })
    await this.load()
    tabs.postMessage({ threadId: this.threadId, what: 'switched' })
  }

  get #path(): string {
    return `/api/threads/${encodeURIComponent(this.threadId)}`
  }
}

/** Whether the thread does not exist, for this user at least. */
function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 422)
}
