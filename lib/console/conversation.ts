// One open thread: its messages, its active run, and the actions on both. It loads the thread's state and joins the run in
// flight with a snapshot, so that a reload continues where the text was.
import { batch, type ReadonlySignal, signal } from '@preact/signals'
import { type Connection, type Frame, isFinal, type RunStream, type TranscriptMessage } from '../client/colloquy.ts'
import { isKnown, say } from './announce.ts'
import { call, colloquy, isMissing, link, textOf } from './api.ts'
import { Away } from './away.ts'
import { Branches } from './branches.ts'
import { RunConnection } from './connecting.ts'
import { Drawing } from './drawing.ts'
import { RunLanes } from './lanes.ts'
import { forgetThread, keepThread, keptThread } from './kept-threads.ts'
import { Outbox } from './outbox.ts'
import { currentOf, messagesOf, Queue } from './queue.ts'
import { type Checkpoint, failureOf, isFailed, progressIn, type Question, type Run } from './records.ts'
import { ShownMessages } from './shown-messages.ts'
import { refresh } from './threads.ts'
import { isLive, onNews } from './live.ts'
import { notifyFailure } from './toast.ts'
import { onDelivered } from './unsent.ts'
import { t } from './words.ts'

const MODES = ['messages-tuple', 'custom']
const RUNS_MAX = 100
/** Interval for polling an idle thread for runs started elsewhere, in ms, where no news come. */
const LOOK_MS = 3000

/** Tells other tabs about changes before their next poll. */
const tabs = new BroadcastChannel('colloquy-runs')

export class Conversation {
  readonly threadId: string
  /** It is read by a link. */
  readonly isReadOnly = link !== null
  readonly shown: ShownMessages
  readonly messages: ReadonlySignal<readonly TranscriptMessage[]>
  readonly state = signal<'loading' | 'new' | 'ready' | 'missing' | 'broken'>('loading')
  readonly runs = signal<readonly Run[]>([])
  /** The active run; null: none. `''`: being started. */
  readonly active = signal<string | null>(null)
  /** A message waits until the conversation is loaded. */
  readonly isWaiting = signal(false)
  readonly connection = new RunConnection()
  /** The error of the newest run. */
  readonly failure = signal<string | null>(null)
  readonly questions = signal<readonly Question[]>([])
  readonly suggestions = signal<readonly string[]>([])
  readonly tokens = signal<number | null>(null)
  /** The agent's progress messages, from custom events. */
  readonly progress = signal<string | null>(null)
  readonly branches: Branches
  readonly outbox: Outbox
  readonly queue: Queue
  readonly away: Away
  readonly lanes = new RunLanes()
  #stream: RunStream | null = null
  /** Loads and streams so far: what a load has read is dropped if another has begun since. */
  #readings = 0
  /** The newest load, while it is under way. */
  #loading: Promise<void> | null = null
  /** Aborts the calls of the newest load. */
  #loadAbort = new AbortController()
  #isClosed = false
  readonly #drawing = new Drawing(() => {
    if (!this.#isClosed) this.#publish()
  })
  /** News have come that no look has followed up: one was hindered or has failed. */
  #hasNews = false
  readonly #looks = setInterval(() => void this.#revalidate(), LOOK_MS)
  readonly #offNews = onNews((changed) => {
    if (changed !== null && changed !== this.threadId) return
    if (this.active.value) void this.queue.refresh()
    this.#hasNews = true
    void this.#look()
  })
  readonly #offDelivered = onDelivered((threadId) => {
    if (threadId === this.threadId) void (this.active.value ? this.queue.refresh() : this.load())
  })
  readonly #closing = new AbortController()
  readonly #onVisible = () => {
    if (document.hidden) return this.away.leave()
    this.#stream?.retryNow()
    this.away.shows(this.messages.value)
    void this.#look()
  }

  constructor(threadId: string, isNew: boolean) {
    this.threadId = threadId
    this.shown = new ShownMessages(this.#path, threadId)
    this.messages = this.shown.messages
    this.branches = new Branches(this.#path, this.runs)
    this.outbox = new Outbox(this)
    this.queue = new Queue(`${this.#path}/runs`, this.active)
    this.away = new Away(threadId)
    if (isNew) this.state.value = 'new'
    const until = { signal: this.#closing.signal }
    tabs.addEventListener('message', ({ data }) => this.#tabChanged(data), until)
    document.addEventListener('visibilitychange', this.#onVisible, until)
    addEventListener('online', () => this.retryNow(), until)
    addEventListener('pagehide', () => this.away.leave(), until)
    addEventListener('pagehide', () => this.outbox.leave(), until)
    if (!isNew) void this.load()
  }

  close(): void {
    this.#isClosed = true
    this.#stream?.close()
    this.connection.closed()
    this.lanes.close()
    clearInterval(this.#looks)
    this.#offNews()
    this.#offDelivered()
    this.#closing.abort()
    this.away.leave()
  }

  // ------------------------------------------------------------------------------------------------ reading

  /** Loads the stored state, and joins the run in flight if there is one. */
  load(): Promise<void> {
    this.#loadAbort.abort()
    this.#loadAbort = new AbortController()
    const loading = this.#load(++this.#readings, this.#loadAbort.signal).finally(() => {
      if (this.#loading === loading) this.#loading = null
    })
    this.#loading = loading
    return loading
  }

  async #load(reading: number, signal: AbortSignal): Promise<void> {
    const isOld = () => this.#isClosed || reading !== this.#readings
    try {
      // One after the other: a run that ends between them is in the state; the other way it would be nowhere.
      const runs = await call<Run[]>('GET', `${this.#path}/runs?limit=${RUNS_MAX}`, undefined, signal)
      const history = await this.shown.stored(signal)
      if (isOld()) return
      const [newest] = history
      if (newest) await this.shown.findOrigins(newest)
      if (newest && !this.isReadOnly) await this.branches.find(runs, this.shown.runsIn(newest))
      if (isOld()) return
      if (newest && !this.isReadOnly) keepThread(this.threadId, { runs, newest })
      batch(() => {
        this.runs.value = runs
        this.outbox.answering.value = null
        if (newest) this.#showStored(newest)
        this.state.value = newest || runs.length > 0 || this.outbox.waiting.length > 0 ? 'ready' : this.#missing
        const last = runs[0]
        this.failure.value = last && isFailed(last) ? failureOf(last) : null
      })
      const { unsent } = this.outbox
      if (unsent && this.active.value === null) return void this.outbox.resend(unsent).catch(notifyFailure)
      const inFlight = currentOf(runs)
      this.queue.take(runs, inFlight?.run_id)
      if (inFlight) this.#showAsked(messagesOf(inFlight))
      if (inFlight) void this.#follow(colloquy.watch(inFlight, this.#watching(true)), inFlight.run_id)
      void this.#countTokens()
    } catch (error) {
      if (isOld()) return
      const { unsent } = this.outbox
      if (isMissing(error) && unsent && this.active.value === null)
        return void this.outbox.resend(unsent).catch(notifyFailure)
      if (isMissing(error)) this.state.value = this.outbox.waiting.length > 0 ? 'ready' : this.#missing
      if (isMissing(error)) return forgetThread(this.threadId)
      if (this.state.value !== 'loading') return
      if (!this.isReadOnly && !isFinal(error)) await this.#showKept(isOld)
      if (!isOld()) this.state.value = 'broken'
    }
  }

  /** What this device has of it, until the server is there. */
  async #showKept(isOld: () => boolean): Promise<void> {
    const kept = await keptThread(this.threadId)
    if (!kept || isOld()) return
    batch(() => {
      this.runs.value = kept.runs
      this.#showStored(kept.newest)
    })
  }

  /** A new thread is missing until its first message has been taken. */
  get #missing(): 'new' | 'missing' {
    return this.state.value === 'new' ? 'new' : 'missing'
  }

  #showStored({ values, tasks }: Checkpoint): void {
    this.shown.replace(values)
    if (!this.#stream) for (const { id } of this.shown.arrived) isKnown(id)
    this.questions.value = tasks.flatMap(({ interrupts }) => interrupts)
    this.#publish()
  }

  /** A run that has just begun has its messages in no state yet. */
  #showAsked(asked: readonly Readonly<Record<string, unknown>>[]): void {
    const known = new Set(this.messages.value.map(({ id }) => id))
    const fresh = asked.filter(({ id }) => !known.has(String(id)))
    if (fresh.length > 0) this.show([...this.messages.value.map(({ raw }) => raw), ...fresh])
  }

  /** Replaces the shown messages until the next load. */
  show(messages: readonly Readonly<Record<string, unknown>>[]): void {
    this.shown.replace({ ...this.shown.values, messages })
    this.#publish()
  }

  #publish(): void {
    batch(() => {
      this.lanes.publish()
      this.shown.publish()
      this.away.shows(this.messages.value)
    })
  }

  /** Looks for a run started elsewhere. Not during a load: on a slow link none would ever end if each look began another. */
  async #look(): Promise<void> {
    if (document.hidden || this.active.value !== null || this.#isClosed || this.#loading) return
    if (this.state.value === 'broken') return this.load()
    if (this.state.value !== 'ready') return
    this.#hasNews = false
    const found = await call<Run[]>('GET', `${this.#path}/runs?limit=1`).catch(() => null)
    if (!found || this.active.value !== null || this.#isClosed || this.#loading) {
      this.#hasNews = true
      return
    }
    const [newest] = found
    const known = this.runs.value.find(({ run_id }) => run_id === newest?.run_id)
    // None any more: the thread was deleted elsewhere.
    if (known?.updated_at !== newest?.updated_at || (!newest && this.runs.value.length > 0)) await this.load()
  }

  /** Where news come by themselves, only what they left open is looked for. */
  async #revalidate(): Promise<void> {
    if (!isLive.value && this.active.value) await this.queue.refresh()
    if (!isLive.value || this.#hasNews || this.state.value === 'broken') await this.#look()
  }

  #tabChanged(data: { threadId?: string; what?: string }): void {
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
    this.lanes.begin(runId === null ? null : { thread_id: this.threadId, run_id: runId })
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
    if (!this.isReadOnly) void refresh().catch(() => {})
    const run = this.runs.value.find(({ run_id }) => run_id === id)
    if (run?.status === 'success' && !this.isReadOnly) void this.#suggest()
    if (run?.status === 'success' && performance.now() - begun > 1000) say('The answer is complete.')
    // A question announces itself.
    if (run?.status === 'interrupted' && run.stop_reason !== 'asked_user') say('The answer was stopped.')
  }

  #ended(stream: RunStream): void {
    if (this.#stream !== stream) return
    batch(() => {
      this.#stream = null
      this.active.value = null
      this.progress.value = null
      this.connection.closed()
    })
  }

  #take(frame: Frame, runId: string): void {
    this.connection.heard()
    if (frame.event === 'error') this.failure.value = String(frame.data?.message ?? t('The run failed'))
    if (/^custom\b/.test(frame.event)) this.progress.value = progressIn(frame.data) ?? this.progress.value
    const isLane = this.lanes.take(frame, this.shown.arrived)
    if (!isLane && !this.shown.apply(frame)) return
    this.lanes.joins(frame, this.shown.arrived)
    this.shown.lastIsOf(runId)
    this.#drawing.soon()
  }

  #watching(snapshot: boolean) {
    return {
      modes: MODES,
      snapshot,
      onConnection: (now: Connection) => this.connection.changed(now)
    }
  }

  /** The network may be back: what hangs is given up, and tried again. */
  retryNow(): void {
    this.#stream?.retryNow()
    this.connection.sendAgain()
    if (this.state.value === 'broken' || this.#loading) void this.load()
  }

  // ------------------------------------------------------------------------------------------------- acting

  /**
   * Waits until what was said is there, which a message follows, or cannot be loaded.
   *
   * @returns false if no message can be sent now: the conversation was left, or another message waits for the same
   */
  async isLoaded(): Promise<boolean> {
    if (this.isWaiting.value) return false
    this.isWaiting.value = true
    try {
      if (this.state.value === 'broken' && !this.#loading) void this.load()
      while (this.#loading && !this.#isClosed && /loading|broken/.test(this.state.value)) await this.#loading
    } finally {
      this.isWaiting.value = false
    }
    return !this.#isClosed
  }

  /** A start as it is sent, by whomever: under its key another body would be refused. */
  startOf(body: object): object {
    return { ...body, stream_mode: MODES, stream_subgraphs: true, on_disconnect: 'continue' }
  }

  /**
   * Starts a run and follows it.
   * @throws the error of the start; the page then shows the stored state
   */
  async run(start: object, key: string): Promise<void> {
    this.away.clear()
    const stream = colloquy.start(this.threadId, start, { ...this.#watching(false), key })
    const following = this.#follow(stream, null)
    following.catch(() => {})
    await stream.started.catch(async (error: unknown) => {
      if (isFinal(error)) this.outbox.clear()
      await this.load()
      throw error
    })
  }

  async stop(): Promise<void> {
    const stream = this.#stream
    if (!stream || this.connection.isStopping.value) return
    // Not sent yet: it is taken back.
    if (this.active.value === '' && this.connection.now.value.failures > 0) {
      this.outbox.clear()
      return stream.close()
    }
    await this.connection.stop(`${this.#path}/runs`, stream, () => this.#isClosed || this.#stream !== stream)
  }

  async #suggest(): Promise<void> {
    const suggestions = await this.shown.suggestions()
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
