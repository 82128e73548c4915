// The lead agent: asks the model, runs the tools it calls, and asks again, until an answer calls no tools.
import { setImmediate as turn } from 'node:timers/promises'
import type { AiMessage, Interrupt, Json, JsonObject, Message, ToolCall } from '../base/types.ts'
import { toChat } from './chat.ts'
import {
  clientInstructionsIn,
  type ClientResult,
  clientToolsIn,
  isClientCall,
  modelSettingsIn,
  responseFormatIn,
  resultIn
} from './client-context.ts'
import type { Middleware, MiddlewareContext } from './middleware.ts'
import type { CallIds, Model, Models } from './model.ts'
import { ContinuedModel, type Half, halfMessage, halfOf } from './continued.ts'
import { callModel } from './model-call.ts'
import type { Reporting } from './observer.ts'
import { type Picture, pictureBudget } from './pictures.ts'
import { AgentError, type AgentInput, type EarlierAttempts, type ListedAgent, type Sink } from './runtime.ts'
import { byName, type Tool, type ToolSource, wantedTools } from './tool.ts'
import { ToolUse } from './tool-use.ts'
import { type Shared, Work } from './work.ts'

interface AgentParts extends Reporting {
  readonly models: Models
  readonly tools: readonly Tool[]
  /** More tools; duplicates by name are dropped. */
  readonly toolSources?: readonly ToolSource[]
  /** System prompt; none by default. */
  readonly systemPrompt?: string
  /** In order; none by default. */
  readonly middlewares?: readonly Middleware[]
}

/** The agent over any models: the demo agent uses one that needs no provider. */
export function createAgent(parts: AgentParts): ListedAgent {
  const leaving = { isAsked: false }
  const shared = { leaving, pictureBudget: pictureBudget() }
  return {
    async start(input, sink, signal) {
      try {
        await new LeadRun(parts, input, sink, signal, shared).work()
      } catch (error) {
        // Failing because of the abort is no failure.
        if (!signal.aborted) throw error
      }
    },
    takesInput: true,
    canResume: true,
    drain: () => {
      leaving.isAsked = true
    },
    takesClientContext: true,
    models: () => parts.models.all.map((model) => model.info)
  }
}

const LONG_MESSAGES = 1_000

class LeadRun implements MiddlewareContext {
  readonly input: AgentInput
  readonly signal: AbortSignal
  readonly #parts: AgentParts
  readonly #sink: Sink
  readonly #model: Model
  readonly #begun: Beginning
  readonly #work: Work
  #tools: readonly Tool[]
  readonly #instructions = new Map<string, string>()
  #hidden = 0
  #shown: ReadonlyMap<string, Json[]> = new Map()
  /** For lines of the log. */
  readonly #about: CallIds

  constructor(parts: AgentParts, input: AgentInput, sink: Sink, signal: AbortSignal, shared: Shared) {
    this.#parts = parts
    this.input = input
    this.#sink = sink
    this.signal = signal
    this.#model = chosenModel(parts.models, input.modelName)
    this.#begun = beginningOf(input)
    this.#work = new Work(input, this.#begun, sink, signal, shared)
    this.#tools = parts.tools
    this.#about = { run_id: input.runId, thread_id: input.threadId, user_id: input.userId }
    if (parts.systemPrompt) this.instruct('system', parts.systemPrompt)
    const { instructions } = input.context
    if (typeof instructions === 'string' && instructions !== '') this.instruct('assistant', instructions)
    this.instruct('client', clientInstructionsIn(input.context))
  }

  /** The broken answer that is continued. */
  #half: Half | null = null

  async work(): Promise<void> {
    const { tools, toolSources = [] } = this.#parts
    const toolSets = await Promise.all(
      toolSources.map((source) => source.open(this.input.context, this.input.attempt > 1))
    )
    const offered = [...tools, ...toolSets.flatMap((set) => set.tools)]
    const wanted = wantedTools(this.input.context.tools)
    const mayUse = (tool: Tool) => wanted(tool.name) && (this.takesImages || !tool.needsImages)
    // A client's tool is its own, whatever ours are called.
    this.#tools = byName([...clientToolsIn(this.input.context), ...offered.filter(mayUse)])
    try {
      await this.#converse()
    } finally {
      for (const set of toolSets) set.close()
      this.#work.pictures?.release()
    }
  }

  async #converse(): Promise<void> {
    const { middlewares = [] } = this.#parts
    const tools = new ToolUse(this.#work, this.#tools, this.#parts, this.#about)
    if (await this.#finishCalls(tools)) return
    await this.#takeHalf()
    let { answer, modelCalls: calls } = this.#begun
    if (answer) checkAnswer(answer)
    for (; !answer; calls++) {
      this.#work.leaveIfAsked()
      this.#checkLimit(calls)
      // What comes meanwhile follows the answer that is continued.
      if (!this.#half) await this.#takeInput()
      for (const middleware of middlewares) await middleware.beforeModel?.(this)
      const message = await this.#ask()
      await this.#work.step('agent')
      if (message.tool_calls.length === 0) {
        checkAnswer(message)
        if (this.input.inbox?.isEmpty ?? true) answer = message
      } else if (await tools.all(message.tool_calls)) return
    }
    for (const middleware of middlewares) {
      await middleware.afterAnswer?.(this)
      if (this.#work.isChanged) await this.#work.step(middleware.tag)
    }
  }

  // ------------------------------------------------------------------------------------ what middlewares may do

  get takesImages(): boolean {
    return this.#model.takesImages ?? false
  }

  messages(): readonly Message[] {
    return this.#work.messages
  }

  pictures(resultId: string): readonly Picture[] {
    return this.#work.pictures?.of(resultId) ?? []
  }

  channel(name: string): Json | undefined {
    return this.#work.channels[name]
  }

  instruct(tag: string, text: string | null): void {
    if (text === null) this.#instructions.delete(tag)
    else this.#instructions.set(tag, text)
  }

  hide(count: number): void {
    this.#hidden = count
  }

  show(shown: ReadonlyMap<string, Json[]>): void {
    this.#shown = shown
  }

  async update(channels: Readonly<Record<string, Json>>): Promise<void> {
    await this.#work.record({ type: 'update', channels })
  }

  async note(tag: string, content: JsonObject, metadata: JsonObject = {}): Promise<void> {
    await this.#work.record({ type: 'middleware', tag, content, metadata })
  }

  async summarized(text: string, replacedIds: readonly string[]): Promise<void> {
    await this.#work.record({ type: 'summarization', text, replacedIds })
  }

  async ask(
    tag: string,
    messages: readonly JsonObject[],
    modelName: string | null,
    timeoutMs: number
  ): Promise<string | null> {
    const model = modelName === null ? this.#model : this.#parts.models.named(modelName)
    const caller = `middleware:${tag}` as const
    if (!model) {
      await this.#work.record({ type: 'llm_error', caller, error: `There is no model "${modelName}"` })
      return null
    }
    const late = AbortSignal.timeout(timeoutMs)
    const signal = AbortSignal.any([this.signal, late])
    try {
      const call = { model, caller, messages, signal, about: this.#about }
      const { content } = await callModel(call, (record) => this.#work.record(record), this.#parts)
      return typeof content === 'string' ? content : null
    } catch (error) {
      this.signal.throwIfAborted()
      if (!late.aborted && !(error instanceof AgentError)) throw error
      if (late.aborted)
        await this.#work.record({ type: 'llm_error', caller, error: `No answer within ${timeoutMs} ms` })
      return null
    }
  }

  // ------------------------------------------------------------------------------------------------- the work

  /** One model call of the conversation. */
  async #ask(): Promise<AiMessage> {
    // Converting a long conversation takes long: let other runs go first.
    if (this.#work.messages.length > LONG_MESSAGES) await turn()
    const half = this.#half
    this.#half = null
    const message = await callModel(
      {
        model: half ? new ContinuedModel(this.#model, half) : this.#model,
        ...(half && { messageId: half.messageId }),
        caller: 'lead_agent',
        messages: this.#conversation(),
        tools: this.#tools,
        format: responseFormatIn(this.input.context),
        settings: modelSettingsIn(this.input.context),
        signal: this.signal,
        about: this.#about,
        // Directly the sink, with nothing between the model's bytes and the log.
        onDelta: this.#sink.emit.bind(this.#sink),
        space: () => this.#sink.space()
      },
      (record) => this.#work.record(record),
      this.#parts
    )
    if (half) this.#work.messages.pop()
    this.#work.messages.push(message)
    return message
  }

  /** What came for the agent since its last model call joins the conversation. */
  async #takeInput(): Promise<void> {
    this.signal.throwIfAborted()
    const messages = this.input.inbox?.take() ?? []
    if (messages.length === 0) return
    this.#work.messages.push(...messages)
    await this.#work.record({ type: 'input', messages })
  }

  /** Half a tool call is dropped, and an answer without a word, or that its model cannot continue: they are made anew. */
  async #takeHalf(): Promise<void> {
    const { half } = this.#begun
    if (!half) return
    if (this.#work.messages.at(-1)?.id === half.messageId) this.#work.messages.pop()
    if (half.text !== '' && this.#model.info.continuation !== 'none') {
      this.#half = half
      this.#work.messages.push(halfMessage(half))
      return
    }
    await this.#work.record(
      { type: 'messages', messages: [{ type: 'remove', id: half.messageId }] },
      ...(half.isShown ? [{ type: 'step', node: 'agent', next: ['agent'] } as const] : [])
    )
  }

  #conversation(): JsonObject[] {
    const chat = toChat(this.#work.messages.slice(this.#hidden), this.#shown, this.takesImages)
    const said = [...this.#instructions.values()].join('\n\n')
    return said === '' ? chat : [{ role: 'system', content: said }, ...chat]
  }

  /**
   * Continues after the interrupts of the previous run, or what an earlier attempt has left: answers what was asked, and makes the other
   * open calls. True: a call asks the user, or has asked him.
   */
  async #finishCalls(tools: ToolUse): Promise<boolean> {
    const { resume, interrupts, earlier } = this.input
    const { questions, openCalls, begunCalls: begun, isAsking } = this.#begun
    if (resume && interrupts.length === 0)
      throw new AgentError('NothingToResume', 'No question waits for an answer in this thread')
    if (openCalls.length === 0 && (earlier || !resume)) return isAsking
    const answers = new Map(questions.map((one) => [one.id, answerTo(one, resume?.value ?? null, questions)]))
    return (await tools.finish(openCalls, { answers, begun })) || isAsking
  }

  #checkLimit(calls: number): void {
    const limit = this.input.recursionLimit
    if (limit <= 0 || calls < limit) return
    const text = `The run was stopped after ${limit} model calls without a final answer (its recursion limit)`
    throw new AgentError('RecursionLimitReached', text, 'loop_capped')
  }
}

/** An object keyed by interrupt ids answers each one; any other value answers all of them. */
function answerTo({ id, value: asked }: Interrupt, value: Json, interrupts: readonly Interrupt[]): ClientResult {
  const byId = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
  const isById = byId !== null && interrupts.some((one) => Object.hasOwn(byId, one.id))
  const answer = isById ? (byId[id] ?? null) : value
  // To a question, an object is words like any other.
  return resultIn(isClientCall(asked) || typeof answer === 'string' ? answer : JSON.stringify(answer))
}

function chosenModel(models: Models, name: string | null): Model {
  const model = models.named(name)
  if (model) return model
  throw new AgentError('UnknownModel', `There is no model "${name}"`)
}

/** An answer with nothing but invalid tool calls is an error, which would otherwise go unnoticed. */
function checkAnswer(message: AiMessage): void {
  if (message.invalid_tool_calls.length === 0 || message.content !== '') return
  const wasCut = message.response_metadata.finish_reason === 'length'
  const reason = wasCut ? 'its answer reached the length limit' : 'the arguments are not a JSON object'
  const names = message.invalid_tool_calls.map(({ name }) => `"${name}"`).join(', ')
  const text = `The model made an invalid call of ${names}: ${reason}`
  throw new AgentError('InvalidToolCall', text, wasCut ? 'model_length_capped' : null)
}

// --------------------------------------------- where it begins: at its run's input, or where an earlier attempt was cut off

interface Beginning {
  readonly messages: readonly Message[]
  readonly channels: Readonly<Record<string, Json>>
  /** The run has asked its user. */
  readonly isAsking: boolean
  /** Questions of the previous run that its user has answered, and no attempt has passed on. */
  readonly questions: readonly Interrupt[]
  /** Calls to be made before the model is asked. */
  readonly openCalls: readonly ToolCall[]
  /** Those of them that had begun when their process ended. */
  readonly begunCalls: ReadonlySet<string>
  /** The broken answer that is continued. */
  readonly half: Half | null
  /** The final answer: only what follows it is left to do. */
  readonly answer: AiMessage | null
  /** Model calls that were answered. */
  readonly modelCalls: number
}

function beginningOf(input: AgentInput): Beginning {
  if (input.earlier) return afterCut(input, input.earlier)
  const { messages, channels, resume, interrupts, openCalls, continues } = input
  return {
    messages,
    channels,
    isAsking: false,
    questions: resume ? interrupts : [],
    openCalls: resume ? openCalls : [],
    begunCalls: new Set(),
    half: continues ? halfOf(messages) : null,
    answer: null,
    modelCalls: 0
  }
}

function afterCut(input: AgentInput, earlier: EarlierAttempts): Beginning {
  const { messages, channels, isAsking, openCalls, begunCalls } = earlier
  const before = new Map(input.messages.map((message) => [message.id, JSON.stringify(message)]))
  // One that was continued has kept its id.
  const replies = messages.filter((one) => one.type === 'ai' && before.get(one.id) !== JSON.stringify(one))
  const last = messages.at(-1)
  const half = earlier.half && { ...earlier.half, isShown: true }
  const isOver = !half && last?.type === 'ai' && last.tool_calls.length === 0 && replies.includes(last)
  return {
    messages,
    channels,
    isAsking,
    questions: input.resume && replies.length === 0 ? input.interrupts : [],
    openCalls,
    begunCalls: new Set(begunCalls),
    half: half ?? (input.continues && replies.length === 0 ? halfOf(messages) : null),
    answer: isOver ? last : null,
    modelCalls: replies.length
  }
}
