// Makes the tool calls of an answer, one after the other, and those that an earlier attempt at the run has left open.
import { randomUUID } from 'node:crypto'
import { messageOf } from '../base/errors.ts'
import { INTERRUPTED } from '../conversation/calls.ts'
import { cutTo, type Message, type ToolCall, type ToolMessage } from '../base/types.ts'
import { inSpan } from '../base/tracing.ts'
import { unlessAborted } from '../base/waiting.ts'
import type { CallIds } from './model.ts'
import type { Reporting } from './observer.ts'
import type { AgentRecord } from './runtime.ts'
import { artifactOf, type ClientResult, isByClient } from './client-context.ts'
import { type Tool, type ToolAnswer, unknownTool, UserInterrupt } from './tool.ts'
import { clarificationOf } from './tools.ts'
import type { Work } from './work.ts'

/** Characters of a tool's error in the log. */
const LOGGED_MAX = 500
const NONE: ReadonlySet<string> = new Set()

type Outcome = ToolAnswer & { readonly status: 'success' | 'error' }

/** What open calls are answered with, by their ids, and which of them had begun when their process ended. */
interface OpenCalls {
  readonly answers: ReadonlyMap<string, ClientResult>
  readonly begun: ReadonlySet<string>
}

export class ToolUse {
  readonly #work: Work
  readonly #tools: readonly Tool[]
  readonly #log: Reporting['log']
  /** For lines of the log. */
  readonly #about: CallIds

  constructor(work: Work, tools: readonly Tool[], { log }: Reporting, about: CallIds) {
    this.#work = work
    this.#tools = tools
    this.#log = log
    this.#about = about
  }

  /** Gives answers to their calls, and makes the others. True: one of them asks the user, so the run ends. */
  async finish(open: readonly ToolCall[], { answers, begun }: OpenCalls): Promise<boolean> {
    for (const call of open) {
      const answer = answers.get(call.id)
      if (answer) await this.#answered(call, answer, false, true)
    }
    const others = open.filter(({ id }) => !answers.has(id))
    if (others.length === 0) await this.#work.record({ type: 'step', node: 'tools' })
    return this.all(others, begun)
  }

  /** `begun`: ids of those that a crash has cut. True: one of them asks the user, so the run ends. */
  async all(calls: readonly ToolCall[], begun = NONE): Promise<boolean> {
    let isWaiting = false
    for (const call of calls) {
      this.#work.leaveIfAsked()
      isWaiting = (await this.#use(call, begun.has(call.id), call === calls.at(-1))) || isWaiting
    }
    return isWaiting
  }

  /** One call. Errors are returned to the model, which may find another way. */
  async #use(call: ToolCall, hasBegun: boolean, isLast: boolean): Promise<boolean> {
    const tool = this.#tools.find(({ name }) => name === call.name)
    const isRepeatable = tool?.isRepeatable === true
    if (hasBegun && !isRepeatable) {
      await this.#answered(call, { status: 'error', content: INTERRUPTED }, isLast)
      return false
    }
    await this.#work.record({ type: 'tool_start', call })
    // Whoever goes on has to know that it has begun.
    if (this.#work.input.goesOn && !isRepeatable) await this.#work.flushed()
    const outcome = await this.#outcome(tool, call)
    if (!(outcome instanceof UserInterrupt)) {
      await this.#answered(call, outcome, isLast)
      return false
    }
    const { value } = outcome
    const asked = clarificationOf(call, value)
    await this.#work.record(
      { type: 'interrupt', interrupt: { id: call.id, value }, asked },
      ...this.#stepAfter(isLast, true)
    )
    return true
  }

  /** `isQuestion`: the answer replaces the question. */
  async #answered(call: ToolCall, outcome: Outcome & ClientResult, isLast: boolean, isQuestion = false): Promise<void> {
    const { status, content, channels, pictures = [] } = outcome
    const { messages } = this.#work
    const isResult = (one: Message) => one.type === 'tool' && one.tool_call_id === call.id
    const at = isQuestion ? messages.findLastIndex(isResult) : -1
    const asked = messages[at]
    const message: ToolMessage = {
      type: 'tool',
      id: asked?.id ?? randomUUID(),
      content,
      additional_kwargs: {},
      response_metadata: {},
      name: call.name,
      tool_call_id: call.id,
      artifact: asked?.type === 'tool' && isByClient(asked) ? artifactOf(outcome) : null,
      status
    }
    if (at >= 0) messages[at] = message
    else messages.push(message)
    if (pictures.length > 0) this.#work.keepPictures(message.id, pictures)
    await this.#work.record(
      { type: 'tool_end', call, message },
      ...(channels ? [{ type: 'update', channels } as const] : []),
      ...this.#stepAfter(isLast, channels !== undefined)
    )
  }

  /** Only a step stores channels: a result is never stored without those that it has changed. */
  #stepAfter(isLast: boolean, changesChannels: boolean): AgentRecord[] {
    if (isLast) return [{ type: 'step', node: 'tools' }]
    return changesChannels && this.#work.input.goesOn ? [{ type: 'step', node: 'tools', next: ['tools'] }] : []
  }

  async #outcome(tool: Tool | undefined, call: ToolCall): Promise<Outcome | UserInterrupt> {
    const { signal } = this.#work
    const begun = performance.now()
    try {
      if (!tool) throw new Error(unknownTool(call.name, this.#tools))
      const answer = await unlessAborted(this.#run(tool, call), signal)
      this.#log?.debug?.(this.#aboutCall(call, begun), 'a tool has answered')
      return { status: 'success', ...(typeof answer === 'string' ? { content: answer } : answer) }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof UserInterrupt) return error
      const content = messageOf(error)
      this.#log?.warn({ ...this.#aboutCall(call, begun), error: cutTo(content, LOGGED_MAX) }, 'a tool failed')
      return { status: 'error', content }
    }
  }

  #aboutCall({ name, id }: ToolCall, begun: number): object {
    return { ...this.#about, tool: name, tool_call_id: id, ms: Math.round(performance.now() - begun) }
  }

  // async, so that a tool that throws synchronously fails as a tool.
  async #run(tool: Tool, call: ToolCall): Promise<string | ToolAnswer> {
    const { input, signal, channels } = this.#work
    const { userId, threadId, runId } = input
    return inSpan('tool', { 'gen_ai.tool.name': call.name }, async () =>
      tool.run(call.args, { signal, userId, threadId, runId, channels })
    )
  }
}
