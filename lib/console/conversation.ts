// One open thread: its messages, its active run, and the actions on both. It loads the thread's state and joins the run
// in flight with a snapshot, so that a reload continues where the text stood.
import { batch, signal } from '@preact/signals'
import {
  ApiError,
  type Connection,
  type Frame,
  type RunRef,
  type RunStream,
  Transcript,
  type TranscriptMessage
} from '../client/colloquy.ts'
import { isKnown, say, sayGrowing } from './announce.ts'
import { call, colloquy, noticeSignedOut, textOf } from './api.ts'
import { type Branches, branchesIn } from './branches.ts'
import { refresh } from './threads.ts'
import { notify } from './toast.ts'

export interface Run {
  readonly run_id: string
  readonly thread_id: string
  readonly status: string
  readonly error: string | null
  readonly stop_reason: string | null
  readonly metadata: { readonly branch_of?: string; readonly parent_run?: string | null }
  readonly created_at: string
  readonly updated_at: string
  readonly total_tokens: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly llm_call_count: number
  readonly lead_agent_tokens: number
  readonly subagent_tokens: number
  readonly middleware_tokens: number
}
/** A question of the agent that waits for its user. */
export interface Question {
  readonly id: string
  readonly value: unknown
}
/** An entry of a thread's history. */
interface Checkpoint {
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly metadata: { readonly run_id?: string }
  readonly values: Readonly<Record<string, unknown>>
  readonly tasks: readonly { readonly interrupts: readonly Question[] }[]
}
export interface Attached {
  readonly filename: string
  readonly size: number
  readonly virtual_path: string
}

/** A start that the gateway has not answered yet. It outlives a reload; its key keeps a second try from being a second run. */
interface Unsent {
  readonly key: string
  readonly message: object
  readonly body: object
}

const MODES = ['messages-tuple', 'custom']
const RUNS_MAX = 100
const HISTORY_PAGE = 20
/** Entries of a history that are read for branches of other clients. */
const BRANCHES_MAX = 400
/** Messages of a thread whose runs are asked for where its state does not name them. */
const ORIGINS_MAX = 200
/** How often a thread that is open and quiet is asked for runs that were started elsewhere. */
const LOOK_MS = 3000

/** Tells other tabs what begins, sooner than they would look. */
const tabs = new BroadcastChannel('colloquy-runs')

/** Characters of a message that a model reads to suggest what to ask next. */
const SUGGESTION_CHARS = 2000

export class Conversation {
  readonly threadId: string
  readonly messages = signal<readonly TranscriptMessage[]>([])
  readonly state = signal<'loading' | 'new' | 'ready' | 'missing' | 'broken'>('loading')
  readonly runs = signal<readonly Run[]>([])
  /** The run at work; null: none. `''`: one that is being started. */
  readonly active = signal<string | null>(null)
  readonly connection = signal<Connection>({ state: 'closed', failures: 0 })
  /** What went wrong with the newest run, in words. */
  readonly failure = signal<string | null>(null)
  readonly questions = signal<readonly Question[]>([])
  readonly artifacts = signal<readonly string[]>([])
  readonly title = signal<string | null>(null)
  readonly suggestions = signal<readonly string[]>([])
  readonly tokens = signal<number | null>(null)
  /** Words of the agent on what it does, from custom events. */
  readonly progress = signal<string | null>(null)
  readonly #transcript = new Transcript()
  #runOf = new Map<string, string>()
  /** Branches that other clients have made; null: there are none. */
  #foreign: Branches | null = null
  /** The newest run when they were looked for. */
  #lookedAt = ''
  #stream: RunStream | null = null
  #isClosed = false
  #isDue = false
  #looks: ReturnType<typeof setInterval> | null = null
  readonly #onTab = ({ data }: MessageEvent) => void this.#heard(data)
  readonly #onVisible = () => void this.#look()
  readonly #onOnline = () => this.retryNow()

  constructor(threadId: string, isNew: boolean) {
    this.threadId = threadId
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

  /** The state as it is stored, and the run in flight if there is one. */
  async load(): Promise<void> {
    try {
      const [runs, history] = await Promise.all([
        call<Run[]>('GET', `${this.#path}/runs?limit=${RUNS_MAX}`),
        call<Checkpoint[]>('POST', `${this.#path}/history`, { limit: 1 })
      ])
      if (this.#isClosed) return
      const [newest] = history
      if (newest) await this.#findOrigins(newest)
      if (newest) await this.#findForeign(runs, newest)
      if (this.#isClosed) return
      batch(() => {
        this.runs.value = runs
        if (newest) this.#show(newest)
        this.state.value = newest || runs.length > 0 || this.#unsent ? 'ready' : 'missing'
        const last = runs[0]
        this.failure.value = last && isFailed(last) ? (last.error ?? 'The run failed') : null
      })
      const unsent = this.#unsent
      if (unsent && this.active.value === null) return void this.#resend(unsent)
      const inFlight = runs.find(isInFlight)
      if (inFlight) void this.#follow(colloquy.watch(inFlight, this.#watching(true)), inFlight.run_id)
      void this.#countTokens()
    } catch (error) {
      noticeSignedOut(error)
      if (this.#isClosed) return
      const isMissing = error instanceof ApiError && (error.status === 404 || error.status === 422)
      if (isMissing && this.#unsent && this.active.value === null) return void this.#resend(this.#unsent)
      this.state.value = isMissing ? 'missing' : this.state.value === 'ready' ? 'ready' : 'broken'
    }
  }

  /** Which runs the messages are of, where their state does not say: that of a graph is its own. */
  async #findOrigins({ values }: Checkpoint): Promise<void> {
    if (messagesIn(values).every(({ id, run_id }) => run_id || this.#runOf.has(String(id)))) return
    const rows = await call<Origin[]>('GET', `${this.#path}/messages?limit=${ORIGINS_MAX}`).catch(() => [])
    for (const { run_id, content } of rows) if (content?.id) this.#runOf.set(content.id, run_id)
  }

  /** Another client branches by checkpoints alone: its branches are in the history, which is read when a run is missing here. */
  async #findForeign(runs: readonly Run[], { values }: Checkpoint): Promise<void> {
    const shown = new Set(messagesIn(values).map(({ id, run_id }) => run_id ?? this.#runOf.get(String(id))))
    const isForeign = runs.some(({ metadata }) => metadata.parent_run === undefined)
    const isMissing = runs.some(({ run_id, status }) => status === 'success' && !shown.has(run_id))
    const newest = runs[0] ? `${runs[0].run_id} ${runs[0].updated_at}` : ''
    if (!isForeign || !isMissing || newest === this.#lookedAt) return
    const history = await this.#history((all) => all.length >= BRANCHES_MAX)
    this.#foreign = branchesIn(history)
    this.#lookedAt = newest
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

  /** A run that somebody else has started, here or elsewhere. */
  async #look(): Promise<void> {
    if (document.hidden || this.active.value !== null || this.#isClosed) return
    if (this.state.value === 'broken') return this.load()
    if (this.state.value !== 'ready') return
    const [newest] = await call<Run[]>('GET', `${this.#path}/runs?limit=1`).catch(() => [])
    if (!newest || this.active.value !== null || this.#isClosed) return
    const known = this.runs.value.find(({ run_id }) => run_id === newest.run_id)
    if (!known || known.updated_at !== newest.updated_at) await this.load()
  }

  #heard(data: { threadId?: string; what?: string }): void {
    if (data.threadId === this.threadId && this.active.value === null) void this.load()
  }

  async #countTokens(): Promise<void> {
    const usage = await call<{ total_tokens: number }>('GET', `${this.#path}/token-usage`).catch(() => null)
    if (usage) this.tokens.value = usage.total_tokens
  }

  // ---------------------------------------------------------------------------------------------- following

  /** Takes what a run says until it has ended. */
  async #follow(stream: RunStream, runId: string | null): Promise<void> {
    this.#stream?.close()
    this.#stream = stream
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
      noticeSignedOut(error)
      this.#ended(stream)
      if (id === null) throw error
      this.failure.value = textOf(error)
      return
    }
    if (this.#isClosed || this.#stream !== stream) return
    await this.load()
    // The run's last words are in the state by now, so nothing is missing between the two.
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
    // At most once a frame of the screen, however fast the model is; hidden pages are drawn a few times a second.
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

  async send(text: string, files: readonly Attached[], model: string | null): Promise<void> {
    await this.#start(humanMessage(text, files), { model, parent: this.#lastRun() })
  }

  /** Says something else in the place of a message: what came after it stays, as another branch. */
  async edit(message: TranscriptMessage, text: string): Promise<void> {
    await this.#again(message, humanMessage(text, filesOf(message)))
  }

  /** What a run was asked, where it is on the page. */
  asked(runId: string): TranscriptMessage | undefined {
    const messages = this.messages.value
    const at = messages.findIndex((one) => this.runOf(one) === runId)
    return messages.slice(0, at + 1).findLast(({ type }) => type === 'human')
  }

  /** The same question once more. */
  async retry(runId: string): Promise<void> {
    const asked = this.asked(runId)
    if (asked) await this.#again(asked, humanMessage(plainText(asked.content), filesOf(asked)))
  }

  /** Of several questions each has its own answer: the others are asked again. */
  async answer(id: string, value: unknown): Promise<void> {
    const isOnly = this.questions.value.length === 1
    const metadata = { parent_run: this.#lastRun() }
    await this.#run({ command: { resume: isOnly ? value : { [id]: value } }, metadata })
  }

  async stop(): Promise<void> {
    const runId = this.active.value
    if (!runId) return
    try {
      await colloquy.cancel(this.#ref(runId))
    } catch (error) {
      // It has ended by itself in the same moment.
      if (!(error instanceof ApiError && error.status === 409)) notify(textOf(error), true)
    }
  }

  async #again(message: TranscriptMessage, next: object): Promise<void> {
    const runId = this.runOf(message)
    const base = runId && (await this.#checkpointBefore(runId))
    if (!runId || !base) throw new Error('It is not known any more where this message stands')
    const at = this.messages.value.findIndex(({ id }) => id === message.id)
    const parent = this.#lastRun(at)
    // What is drawn meanwhile: the conversation up to there.
    this.#transcript.replace({
      ...this.#transcript.values,
      messages: this.messages.value.slice(0, at).map(({ raw }) => raw)
    })
    await this.#start(next, { base, parent, branchOf: this.#rootOf(runId) })
  }

  async #start(
    message: object,
    more: { model?: string | null; base?: string; parent: string | null; branchOf?: string }
  ): Promise<void> {
    const body = {
      input: { messages: [message] },
      metadata: { parent_run: more.parent, ...(more.branchOf && { branch_of: more.branchOf }) },
      ...(more.base && { checkpoint_id: more.base }),
      ...(more.model && { context: { model_name: more.model } })
    }
    await this.#sendOff({ key: newId(), message, body }, this.state.value === 'new')
  }

  /** Kept until it is answered: a page that is reloaded before that sends it again. */
  async #sendOff(unsent: Unsent, isNew: boolean): Promise<void> {
    sessionStorage.setItem(this.#outbox, JSON.stringify(unsent))
    try {
      if (isNew) await call('POST', '/api/threads', { thread_id: this.threadId })
      this.#transcript.apply({ event: 'messages', data: [unsent.message, {}], id: null })
      this.#publish()
      await this.#run(unsent.body, unsent.key)
      sessionStorage.removeItem(this.#outbox)
    } catch (error) {
      // Refused is answered; what a reload has cut is not.
      if (error instanceof ApiError) sessionStorage.removeItem(this.#outbox)
      throw error
    }
  }

  async #resend(unsent: Unsent): Promise<void> {
    this.state.value = 'ready'
    await this.#sendOff(unsent, true).catch((error: unknown) => notify(textOf(error), true))
  }

  get #unsent(): Unsent | null {
    const text = sessionStorage.getItem(this.#outbox)
    // Written above, by this very origin.
    return text === null ? null : (JSON.parse(text) as Unsent)
  }

  get #outbox(): string {
    return `colloquy-unsent-${this.threadId}`
  }

  /** @throws what the start was refused with; the page then shows what is stored */
  async #run(body: object, key = newId()): Promise<void> {
    const stream = colloquy.start(
      this.threadId,
      { ...body, stream_mode: MODES, on_disconnect: 'continue' },
      { ...this.#watching(false), key }
    )
    const following = this.#follow(stream, null)
    following.catch(() => {})
    await stream.started.catch(async (error: unknown) => {
      if (error instanceof ApiError) sessionStorage.removeItem(this.#outbox)
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

  // ----------------------------------------------------------------------------------------------- branches

  /** Runs that answer in the same place, oldest first; one alone is no branch. */
  branchesOf(runId: string): readonly Run[] {
    const beside = this.#foreign?.beside.get(runId)
    if (beside) return beside.flatMap((id) => this.runs.value.find(({ run_id }) => run_id === id) ?? [])
    const root = this.#rootOf(runId)
    const all = this.runs.value.filter((run) => run.run_id === root || run.metadata.branch_of === root)
    return all.toReversed()
  }

  /** Goes to where that run has led, and makes it what the thread goes on from. */
  async switchTo(runId: string): Promise<void> {
    const checkpoint_id = this.#foreign?.ends.get(runId) ?? (await this.#endOf(runId))
    if (!checkpoint_id) throw new Error('That branch is not stored any more')
    await call('POST', `${this.#path}/state`, { checkpoint_id, values: {} })
    await this.load()
    tabs.postMessage({ threadId: this.threadId, what: 'switched' })
  }

  async #endOf(runId: string): Promise<string | undefined> {
    let leaf = runId
    for (;;) {
      const next = this.runs.value.find(({ metadata }) => metadata.parent_run === leaf)
      if (!next) break
      leaf = next.run_id
    }
    const isEnd = ({ metadata }: Checkpoint) => metadata.run_id === leaf
    return (await this.#history((all) => all.some(isEnd))).find(isEnd)?.checkpoint_id
  }

  #rootOf(runId: string): string {
    return this.runs.value.find(({ run_id }) => run_id === runId)?.metadata.branch_of ?? runId
  }

  /** Where a run has begun; for one that begins a thread of a graph, its own first checkpoint, which holds nothing yet. */
  async #checkpointBefore(runId: string): Promise<string | null> {
    const isOf = ({ metadata }: Checkpoint) => metadata.run_id === runId
    // Until one of another run is behind it: its first may be on the next page.
    const history = await this.#history((all) => all.findLastIndex(isOf) >= 0 && !isOf(all.at(-1)!))
    const ids = new Set(history.filter(isOf).map(({ checkpoint_id }) => checkpoint_id))
    const first = history.find((one) => isOf(one) && !ids.has(one.parent_checkpoint_id ?? ''))
    return first ? (first.parent_checkpoint_id ?? first.checkpoint_id) : null
  }

  /** The history, newest first, page by page until there is enough of it. */
  async #history(isEnough: (all: readonly Checkpoint[]) => boolean): Promise<readonly Checkpoint[]> {
    const all: Checkpoint[] = []
    for (let left = 500; left > 0; left--) {
      const before = all.at(-1)?.checkpoint_id
      const page = await call<Checkpoint[]>('POST', `${this.#path}/history`, {
        limit: HISTORY_PAGE,
        ...(before && { before })
      })
      all.push(...page)
      // A page of long entries is short: the last one is empty.
      if (page.length === 0 || isEnough(all)) break
    }
    return all
  }

  get #path(): string {
    return `/api/threads/${encodeURIComponent(this.threadId)}`
  }

  #ref(runId: string): RunRef {
    return { thread_id: this.threadId, run_id: runId }
  }
}

// --------------------------------------------------------------------------------------------------- helpers

/** A message of the thread's records. */
interface Origin {
  readonly run_id: string
  readonly content: { readonly id?: string } | null
}

function messagesIn({ messages }: Checkpoint['values']): readonly Record<string, unknown>[] {
  return Array.isArray(messages) ? messages : []
}

export function plainText(content: TranscriptMessage['content']): string {
  if (typeof content === 'string') return content
  return content
    .map((block) => {
      const text = typeof block === 'object' && block !== null && 'text' in block ? block.text : ''
      return typeof block === 'string' ? block : String(text)
    })
    .join('')
}

export function filesOf({ raw }: TranscriptMessage): readonly Attached[] {
  const files = (raw.additional_kwargs as { files?: unknown } | undefined)?.files
  return Array.isArray(files) ? (files as Attached[]) : []
}

function humanMessage(text: string, files: readonly Attached[]): Record<string, unknown> {
  return {
    type: 'human',
    id: newId(),
    content: text,
    ...(files.length > 0 && { additional_kwargs: { files } })
  }
}

/** Browsers have randomUUID on secure origins alone. */
export function newId(): string {
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
}

export const isInFlight = ({ status }: Run): boolean => status === 'pending' || status === 'running'
export const isFailed = ({ status }: Run): boolean => status === 'error' || status === 'timeout'
