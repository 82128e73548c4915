// The lead agent: asks the model, runs the tools it calls, and asks again, until an answer calls no tools.
import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import {
  type AiMessage,
  cutTo,
  type Interrupt,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type ToolMessage
} from '../base/types.ts'
import { toChat } from './chat.ts'
import { clientInstructionsIn, clientToolsIn, modelSettingsIn, responseFormatIn } from './client-context.ts'
import { clarificationOf } from './tools.ts'
import type { Middleware, MiddlewareContext } from './middleware.ts'
import type { CallIds, Model, Models } from './model.ts'
import { ContinuedModel, halfOf } from './continued.ts'
import { callModel } from './model-call.ts'
import type { Reporting } from './observer.ts'
import { AgentError, type AgentInput, type AgentRecord, type ListedAgent, type Sink } from './runtime.ts'
import { type Tool, type ToolAnswer, type ToolSource, UserInterrupt } from './tool.ts'
import { inSpan } from '../base/tracing.ts'
import { unlessAborted } from '../base/waiting.ts'

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
  return {
    async start(input, sink, signal) {
      try {
        await new LeadRun(parts, input, sink, signal).work()
      } catch (error) {
        // Failing because of the abort is no failure.
        if (!signal.aborted) throw error
      }
    },
    takesInput: true,
    takesClientContext: true,
    models: () => parts.models.all.map((model) => model.info)
  }
}

const LONG_MESSAGES = 1_000
/** Characters of a tool's error in the log. */
const LOGGED_MAX = 500

type Outcome = ToolAnswer & { readonly status: 'success' | 'error' }

class LeadRun implements MiddlewareContext {
  readonly input: AgentInput
  readonly signal: AbortSignal
  readonly #parts: AgentParts
  readonly #sink: Sink
  readonly #model: Model
  readonly #messages: Message[]
  #tools: readonly Tool[]
  readonly #instructions = new Map<string, string>()
  #hidden = 0
  #shown: ReadonlyMap<string, Json[]> = new Map()
  /** Channels changed since the last step. */
  #isChanged = false
  #channels: Readonly<Record<string, Json>>
  /** For lines of the log. */
  readonly #about: CallIds

  constructor(parts: AgentParts, input: AgentInput, sink: Sink, signal: AbortSignal) {
    this.#parts = parts
    this.input = input
    this.#sink = sink
    this.signal = signal
    this.#model = chosenModel(parts.models, input.modelName)
    this.#messages = [...input.messages]
    this.#tools = parts.tools
    this.#channels = input.channels
    this.#about = { run_id: input.runId, thread_id: input.threadId, user_id: input.userId }
    if (parts.systemPrompt) this.instruct('system', parts.systemPrompt)
    const { instructions } = input.context
    if (typeof instructions === 'string' && instructions !== '') this.instruct('assistant', instructions)
    this.instruct('client', clientInstructionsIn(input.context))
  }

  /** The broken answer that is continued. */
  #half: ReturnType<typeof halfOf> = null

  async work(): Promise<void> {
    const { tools, toolSources = [] } = this.#parts
    const toolSets = await Promise.all(toolSources.map((source) => source.open(this.input.context)))
    const offered = [...tools, ...toolSets.flatMap((set) => set.tools)]
    const wanted = wantedTools(this.input.context.tools)
    const mayUse = (tool: Tool) => wanted(tool.name) && (this.takesImages || !tool.needsImages)
    // A client's tool is its own, whatever ours are called.
    this.#tools = byName([...clientToolsIn(this.input.context), ...offered.filter(mayUse)])
    try {
      await this.#converse()
    } finally {
      for (const set of toolSets) set.close()
    }
  }

  async #converse(): Promise<void> {
    const { middlewares = [] } = this.#parts
    if (await this.#resume()) return
    if (this.input.continues) await this.#takeHalf()
    for (let calls = 0; ; calls++) {
      this.#checkLimit(calls)
      await this.#takeInput()
      for (const middleware of middlewares) await middleware.beforeModel?.(this)
      const message = await this.#ask()
      await this.#step('agent')
      if (message.tool_calls.length === 0) {
        checkAnswer(message)
        if (this.input.inbox?.isEmpty ?? true) break
      } else if (await this.#useAll(message.tool_calls)) return
    }
    for (const middleware of middlewares) {
      await middleware.afterAnswer?.(this)
      if (this.#isChanged) await this.#step(middleware.tag)
    }
  }

  // ------------------------------------------------------------------------------------ what middlewares may do

  get takesImages(): boolean {
    return this.#model.takesImages ?? false
  }

  messages(): readonly Message[] {
    return this.#messages
  }

  channel(name: string): Json | undefined {
    return this.#channels[name]
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
    this.#channels = { ...this.#channels, ...channels }
    this.#isChanged = true
    await this.#record({ type: 'update', channels })
  }

  async note(tag: string, content: JsonObject, metadata: JsonObject = {}): Promise<void> {
    await this.#record({ type: 'middleware', tag, content, metadata })
  }

  async summarized(text: string, replacedIds: readonly string[]): Promise<void> {
    await this.#record({ type: 'summarization', text, replacedIds })
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
      await this.#record({ type: 'llm_error', caller, error: `There is no model "${modelName}"` })
      return null
    }
    const late = AbortSignal.timeout(timeoutMs)
    const signal = AbortSignal.any([this.signal, late])
    try {
      const call = { model, caller, messages, signal, about: this.#about }
      const { content } = await callModel(call, (record) => this.#record(record), this.#parts)
      return typeof content === 'string' ? content : null
    } catch (error) {
      this.signal.throwIfAborted()
      if (!late.aborted && !(error instanceof AgentError)) throw error
      if (late.aborted) await this.#record({ type: 'llm_error', caller, error: `No answer within ${timeoutMs} ms` })
      return null
    }
  }

  // ------------------------------------------------------------------------------------------------- the work

  /** One model call of the conversation. */
  async #ask(): Promise<AiMessage> {
    // Converting a long conversation takes long: let other runs go first.
    if (this.#messages.length > LONG_MESSAGES) await turn()
    const half = this.#half
    this.#half = null
    const message = await callModel(
      {
        model: half ? new ContinuedModel(this.#model, half.text) : this.#model,
        ...(half && { messageId: half.message.id }),
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
      (record) => this.#record(record),
      this.#parts
    )
    if (half) this.#messages.pop()
    this.#messages.push(message)
    return message
  }

  /** What came for the agent since its last model call joins the conversation. */
  async #takeInput(): Promise<void> {
    this.signal.throwIfAborted()
    const messages = this.input.inbox?.take() ?? []
    if (messages.length === 0) return
    this.#messages.push(...messages)
    await this.#record({ type: 'input', messages })
  }

  /** Half a tool call is dropped, and an answer without a word: they are made anew. */
  async #takeHalf(): Promise<void> {
    const half = halfOf(this.#messages)
    if (!half) return
    this.#messages.pop()
    if (half.text === '') {
      await this.#record({ type: 'messages', messages: [{ type: 'remove', id: half.message.id }] })
      return
    }
    this.#half = half
    this.#messages.push({ ...half.message, content: half.text, invalid_tool_calls: [] })
  }

  async #step(node: string): Promise<void> {
    this.#isChanged = false
    await this.#record({ type: 'step', node })
  }

  #conversation(): JsonObject[] {
    const chat = toChat(this.#messages.slice(this.#hidden), this.#shown)
    const said = [...this.#instructions.values()].join('\n\n')
    return said === '' ? chat : [{ role: 'system', content: said }, ...chat]
  }

  /**
   * Continues after the interrupts of the previous run: answers their calls and runs the other open ones. True: a call
   * interrupts again.
   */
  async #resume(): Promise<boolean> {
    const { interrupts, resume, openCalls: open } = this.input
    if (!resume) return false
    if (interrupts.length === 0)
      throw new AgentError('NothingToResume', 'No question waits for an answer in this thread')
    const answers = new Map(interrupts.map(({ id }) => [id, answerTo(id, resume.value, interrupts)]))
    const asked = open.filter(({ id }) => answers.has(id))
    for (const call of asked) await this.#answered(call, { status: 'success', content: answers.get(call.id) ?? '' })
    return this.#useAll(open.filter(({ id }) => !answers.has(id)))
  }

  /** True: one of them asks the user, so the run ends. */
  async #useAll(calls: readonly ToolCall[]): Promise<boolean> {
    let isWaiting = false
    for (const call of calls) isWaiting = (await this.#use(call)) || isWaiting
    await this.#step('tools')
    return isWaiting
  }

  /** One tool call. Errors are returned to the model, which may find another way. */
  async #use(call: ToolCall): Promise<boolean> {
    await this.#record({ type: 'tool_start', call })
    const outcome = await this.#outcome(call)
    if (!(outcome instanceof UserInterrupt)) {
      await this.#answered(call, outcome)
      return false
    }
    const { value } = outcome
    await this.#record({ type: 'interrupt', interrupt: { id: call.id, value }, asked: clarificationOf(call, value) })
    return true
  }

  async #answered(call: ToolCall, { status, content, channels }: Outcome): Promise<void> {
    // The answer replaces the question.
    const at = this.#messages.findLastIndex((one) => one.type === 'tool' && one.tool_call_id === call.id)
    const asked = this.input.openCalls.some(({ id }) => id === call.id) ? this.#messages[at] : undefined
    const message: ToolMessage = {
      type: 'tool',
      id: asked?.id ?? randomUUID(),
      content,
      additional_kwargs: {},
      response_metadata: {},
      name: call.name,
      tool_call_id: call.id,
      artifact: null,
      status
    }
    if (asked) this.#messages[at] = message
    else this.#messages.push(message)
    await this.#record({ type: 'tool_end', call, message })
    if (channels) await this.update(channels)
  }

  async #outcome(call: ToolCall): Promise<Outcome | UserInterrupt> {
    const tool = this.#tools.find(({ name }) => name === call.name)
    const begun = performance.now()
    try {
      if (!tool) throw new Error(unknownTool(call.name, this.#tools))
      const answer = await unlessAborted(this.#run(tool, call), this.signal)
      this.#parts.log?.debug?.(this.#aboutTool(call, begun), 'a tool has answered')
      return { status: 'success', ...(typeof answer === 'string' ? { content: answer } : answer) }
    } catch (error) {
      this.signal.throwIfAborted()
      if (error instanceof UserInterrupt) return error
      const content = error instanceof Error ? error.message : String(error)
      this.#parts.log?.warn({ ...this.#aboutTool(call, begun), error: cutTo(content, LOGGED_MAX) }, 'a tool failed')
      return { status: 'error', content }
    }
  }

  #aboutTool({ name, id }: ToolCall, begun: number): object {
    return { ...this.#about, tool: name, tool_call_id: id, ms: Math.round(performance.now() - begun) }
  }

  // async, so that a tool that throws synchronously fails as a tool.
  async #run(tool: Tool, call: ToolCall): Promise<string | ToolAnswer> {
    const { userId, threadId, runId } = this.input
    const context = { signal: this.signal, userId, threadId, runId, channels: this.#channels }
    return inSpan('tool', { 'gen_ai.tool.name': call.name }, async () => tool.run(call.args, context))
  }

  /** Keeps a record, and waits when the log is full. Nothing is kept after an abort. */
  async #record(record: AgentRecord): Promise<void> {
    this.signal.throwIfAborted()
    if (!this.#sink.record(record)) await this.#sink.space()
    this.signal.throwIfAborted()
  }

  #checkLimit(calls: number): void {
    const limit = this.input.recursionLimit
    if (limit <= 0 || calls < limit) return
    const text = `The run was stopped after ${limit} model calls without a final answer (its recursion limit)`
    throw new AgentError('RecursionLimitReached', text, 'loop_capped')
  }
}

/** An object keyed by interrupt ids answers each one; any other value answers all of them. */
function answerTo(id: string, value: Json, interrupts: readonly Interrupt[]): string {
  const byId = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
  const isById = byId !== null && interrupts.some((one) => Object.hasOwn(byId, one.id))
  const answer = isById ? (byId[id] ?? null) : value
  return typeof answer === 'string' ? answer : JSON.stringify(answer)
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

/** An assistant may restrict the tools; by default it has all. */
function wantedTools(names: Json | undefined): (name: string) => boolean {
  return Array.isArray(names) ? (name) => names.includes(name) : () => true
}

/** The first tool of a name wins: a tool server cannot replace a built-in one. */
function byName(tools: readonly Tool[]): readonly Tool[] {
  const named = new Map<string, Tool>()
  for (const tool of tools) if (!named.has(tool.name)) named.set(tool.name, tool)
  return [...named.values()]
}

function unknownTool(name: string, tools: readonly Tool[]): string {
  const known = tools.map((tool) => tool.name).join(', ')
  return `There is no tool "${name}". ${known === '' ? 'There are no tools.' : `The tools are: ${known}`}`
}
