// The lead agent: asks the model, does what the model asks for, and asks again, until the answer calls no tool any more.
import { randomUUID } from 'node:crypto'
import type { AiMessage, Json, JsonObject, Message, ToolCall, ToolMessage } from '../types.ts'
import { finishReason, toChat, toMessage } from './chat.ts'
import { type AgentLog, ChatModel, type ModelConfig } from './chat-model.ts'
import type { Completion, Model } from './model.ts'
import { type Agent, AgentError, type AgentInput, type Fact, type Sink } from './runtime.ts'
import type { Tool, ToolAnswer } from './tool.ts'

export interface AgentParts {
  /** At least one; the first serves runs that name none. */
  readonly models: readonly Model[]
  readonly tools: readonly Tool[]
  /** Said before every conversation; none by default. */
  readonly systemPrompt?: string
}

export interface LeadOptions extends Omit<AgentParts, 'models'> {
  readonly models: readonly ModelConfig[]
  readonly log?: AgentLog
}

/** The agent over the models of the configuration. */
export function createLeadAgent(options: LeadOptions): Agent {
  const models = options.models.map((config) => new ChatModel(config, { log: options.log }))
  return createAgent({ ...options, models })
}

/** The agent over any models: the demo agent is this one with a model that needs no provider. */
export function createAgent(parts: AgentParts): Agent {
  return {
    async start(input, sink, signal) {
      try {
        await new LeadRun(parts, input, sink, signal).work()
      } catch (error) {
        // What fails because we were told to stop is no failure.
        if (!signal.aborted) throw error
      }
    },
    models: () => parts.models.map((model) => model.info)
  }
}

/** One run of the lead agent. */
class LeadRun {
  readonly #parts: AgentParts
  readonly #input: AgentInput
  readonly #sink: Sink
  readonly #signal: AbortSignal
  readonly #model: Model
  readonly #messages: Message[]
  #channels: Readonly<Record<string, Json>>

  constructor(parts: AgentParts, input: AgentInput, sink: Sink, signal: AbortSignal) {
    this.#parts = parts
    this.#input = input
    this.#sink = sink
    this.#signal = signal
    this.#model = chosenModel(parts.models, input.modelName)
    this.#messages = [...input.messages]
    this.#channels = input.channels
  }

  async work(): Promise<void> {
    for (let calls = 0; ; calls++) {
      this.#checkLimit(calls)
      const message = await this.#ask()
      await this.#record({ type: 'step', node: 'agent' })
      if (message.tool_calls.length === 0) return checkAnswer(message)
      for (const call of message.tool_calls) await this.#use(call)
      await this.#record({ type: 'step', node: 'tools' })
    }
  }

  /** One model call, from its request to its message. */
  async #ask(): Promise<AiMessage> {
    const about = { caller: 'lead_agent', model: this.#model.info.name } as const
    const messages = this.#conversation()
    await this.#record({ type: 'llm_request', ...about, messages })
    const id = randomUUID()
    const begun = performance.now()
    const completion = await this.#complete(messages, id)
    const latencyMs = performance.now() - begun
    const message = toMessage(completion, id, about.model)
    this.#messages.push(message)
    const { responseId, usage } = completion
    const reason = finishReason(completion, message.tool_calls.length > 0)
    await this.#record({ type: 'llm_response', ...about, responseId, message, finishReason: reason, usage, latencyMs })
    return message
  }

  async #complete(messages: readonly JsonObject[], messageId: string): Promise<Completion> {
    const { tools } = this.#parts
    const request = { messages, messageId, tools, signal: this.#signal, space: () => this.#sink.space() }
    try {
      return await this.#model.complete(request, (delta) => this.#sink.emit(delta))
    } catch (error) {
      if (error instanceof AgentError)
        await this.#record({ type: 'llm_error', caller: 'lead_agent', error: error.message })
      throw error
    }
  }

  #conversation(): JsonObject[] {
    const { systemPrompt } = this.#parts
    const chat = toChat(this.#messages)
    return systemPrompt ? [{ role: 'system', content: systemPrompt }, ...chat] : chat
  }

  /** One tool call. Whatever goes wrong with it is told to the model, which may know another way. */
  async #use(call: ToolCall): Promise<void> {
    await this.#record({ type: 'tool_start', call })
    const { status, content, channels } = await this.#outcome(call)
    const message: ToolMessage = {
      type: 'tool',
      id: randomUUID(),
      content,
      additional_kwargs: {},
      response_metadata: {},
      name: call.name,
      tool_call_id: call.id,
      artifact: null,
      status
    }
    this.#messages.push(message)
    await this.#record({ type: 'tool_end', call, message })
    if (!channels) return
    this.#channels = { ...this.#channels, ...channels }
    await this.#record({ type: 'update', channels })
  }

  async #outcome(call: ToolCall): Promise<ToolAnswer & { readonly status: 'success' | 'error' }> {
    const tool = this.#parts.tools.find(({ name }) => name === call.name)
    if (!tool) return { status: 'error', content: unknownTool(call.name, this.#parts.tools) }
    try {
      const answer = await unlessAborted(this.#run(tool, call), this.#signal)
      return { status: 'success', ...(typeof answer === 'string' ? { content: answer } : answer) }
    } catch (error) {
      this.#signal.throwIfAborted()
      return { status: 'error', content: error instanceof Error ? error.message : String(error) }
    }
  }

  // async: a tool that throws before its first await is a failed tool as well.
  async #run(tool: Tool, call: ToolCall): Promise<string | ToolAnswer> {
    const { userId, threadId, runId } = this.#input
    return tool.run(call.args, { signal: this.#signal, userId, threadId, runId, channels: this.#channels })
  }

  /** Tells a fact, and waits when the log has no space. Nothing is told after an abort. */
  async #record(fact: Fact): Promise<void> {
    this.#signal.throwIfAborted()
    if (!this.#sink.record(fact)) await this.#sink.space()
    this.#signal.throwIfAborted()
  }

  #checkLimit(calls: number): void {
    const limit = this.#input.recursionLimit
    if (limit <= 0 || calls < limit) return
    const text = `The run was stopped after ${limit} model calls without a final answer (its recursion limit)`
    throw new AgentError('RecursionLimitReached', text, 'loop_capped')
  }
}

function chosenModel(models: readonly Model[], name: string | null): Model {
  const model = name === null ? models[0] : models.find(({ info }) => info.name === name)
  if (model) return model
  throw new AgentError('UnknownModel', name === null ? 'No model is configured' : `There is no model "${name}"`)
}

/** An answer that wants tools only, and none in a way that we can read, is no answer: nobody would notice that it failed. */
function checkAnswer(message: AiMessage): void {
  if (message.invalid_tool_calls.length === 0 || message.content !== '') return
  const wasCut = message.response_metadata.finish_reason === 'length'
  const reason = wasCut ? 'its answer reached the length limit' : 'what it sent as arguments is no JSON object'
  const names = message.invalid_tool_calls.map(({ name }) => `"${name}"`).join(', ')
  const text = `The model called ${names} in a way that cannot be carried out: ${reason}`
  throw new AgentError('InvalidToolCall', text, wasCut ? 'model_length_capped' : null)
}

function unknownTool(name: string, tools: readonly Tool[]): string {
  const known = tools.map((tool) => tool.name).join(', ')
  return `There is no tool "${name}". ${known === '' ? 'There are no tools.' : `The tools are: ${known}`}`
}

/** The work's result, or a rejection as soon as the signal aborts: a tool that does not listen must not hold up a cancel. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
  })
}
