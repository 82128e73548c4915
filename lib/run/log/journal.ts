// The journal of one run: merges deltas into the message in progress, and turns the agent's records into the events,
// totals and texts that are kept of the run [contract 4.2, 4.3].
import { randomUUID } from 'node:crypto'
import type { Caller, AgentRecord } from '../../agent/runtime.ts'
import type { NewEvent } from '../../store/store.ts'
import type { OpenCall } from '../../conversation/interrupts.ts'
import {
  type AiMessage,
  type EventCategory,
  type HumanMessage,
  type Json,
  type JsonObject,
  NO_TOTALS,
  type RunEvent,
  type RunTotals,
  textOf,
  timestamp,
  type ToolCall,
  type ToolMessage,
  type UsageMetadata,
  cutTo,
  isObject
} from '../../base/types.ts'
import { asChatCompletion, asJson, cutTrace, estimateBytes, interruptedResult, modelIn } from './event-content.ts'
import { LiveMessages } from './message.ts'
import { ModelUsages, type Prices } from './model-usage.ts'
import type { Unstored } from './run-log.ts'
import type { RunEnd } from '../run-end.ts'

export interface JournalOptions {
  /** Bytes of a trace's content [Events 4]; 0: no limit. */
  readonly maxTraceContent: number
  readonly trackTokens: boolean
  /** Absent: nothing costs anything. */
  readonly prices?: Prices
}

/** Length of the column. */
const TYPE_MAX = 32
const PREVIEW_MAX = 500
const ARGS_MAX = 2000
const MESSAGE_TEXT_MAX = 2000

type Totals = { -readonly [K in keyof RunTotals]: RunTotals[K] }

export class Journal {
  readonly #options: JournalOptions
  #events: NewEvent[] = []
  /** Where its events are counted, estimated: with all else of its run, once it has a log. */
  unstored: Unstored = { bytes: 0 }
  #k = 0
  #llmCalls = 0
  /** Open model calls: several may be in progress. */
  readonly #openModelCalls = new OpenModelCalls()
  readonly messages = new LiveMessages()
  /** Open tool calls by id: what a broken-off run still has to answer [Events 2]. */
  readonly #openCalls = new Map<string, ToolCall>()
  /** Questions to the user that stand in for results, by call. */
  readonly #askedIds = new Map<string, string>()
  /** Those of the last answer that had begun when their process ended: without a result, they may have happened. */
  readonly begunCalls = new Set<string>()
  /** Messages of others than the lead agent, which join no conversation. */
  readonly #asideIds = new Set<string>()
  /** Messages that an attempt before this one has left among the events. */
  readonly recordedIds = new Set<string>()
  readonly #totals: Totals = { ...NO_TOTALS }
  #modelName: string | null = null
  #firstHuman: string | null = null
  #hasBegun = false
  #lastAi: string | null = null

  readonly usage: ModelUsages

  constructor(options: JournalOptions) {
    this.#options = options
    this.usage = new ModelUsages(options.prices ?? new Map())
  }

  /**
   * Restores the journal of a run whose process has died from its stored events, all of them in order, and the last k,
   * which must not be reused.
   */
  static resumed(options: JournalOptions, events: readonly RunEvent[], lastK = events.length - 1): Journal {
    const journal = new Journal(options)
    journal.#k = lastK + 1
    for (const event of events) journal.#recall(event)
    return journal
  }

  #recall({ event_type, content, metadata }: RunEvent): void {
    // Contents and metadata of these types were written by `#add` below.
    if (event_type === 'run_start') this.#hasBegun = true
    if (isObject(content) && typeof content.id === 'string') this.recordedIds.add(content.id)
    if (event_type === 'human_message')
      this.#firstHuman = cutTo(textOf((content as unknown as HumanMessage).content), MESSAGE_TEXT_MAX)
    else if (event_type === 'llm_request') this.#recallRequest(content, metadata)
    else if (event_type === 'llm_response' && metadata.usage)
      this.#count(metadata.caller as Caller, modelIn(content), metadata.usage as unknown as UsageMetadata)
    else if (event_type === 'ai_tool_call')
      for (const call of (content as unknown as AiMessage).tool_calls) this.#recallCall(call)
    else if (event_type === 'tool_start') this.begunCalls.add(String(metadata.tool_call_id))
    else if (event_type === 'tool_result') this.#openCalls.delete((content as unknown as ToolMessage).tool_call_id)
    else if (event_type === 'ai_message') this.#totals.message_count++
    if (event_type === 'ai_message' || event_type === 'ai_tool_call') this.#modelName = metadata.model_name as string
  }

  /** Models use ids again. */
  #recallCall(call: ToolCall): void {
    this.#openCalls.set(call.id, call)
    this.begunCalls.delete(call.id)
  }

  #recallRequest(content: Json, { caller, message_id: aside }: JsonObject): void {
    this.#llmCalls++
    if (typeof aside === 'string') this.#asideIds.add(aside)
    this.usage.called(modelIn(content) ?? '')
    if (caller === 'lead_agent') this.#modelName = modelIn(content) ?? this.#modelName
  }

  get totals(): RunTotals {
    return this.#totals
  }
  get modelName(): string | null {
    return this.#modelName
  }
  get firstHumanMessage(): string | null {
    return this.#firstHuman
  }
  get lastAiMessage(): string | null {
    return this.#lastAi
  }
  get hasOpenCalls(): boolean {
    return this.#openCalls.size > 0
  }

  /** The run is over and stored. Drops its texts: one that is a slice of another keeps all of that one alive. */
  release(): void {
    this.messages.breakOff('')
    this.#openCalls.clear()
    this.begunCalls.clear()
    this.recordedIds.clear()
    this.#firstHuman = null
    this.#lastAi = null
  }

  /** Events not handed over yet. */
  takeEvents(): NewEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  /** The run's start is recorded. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** The user's message. Recorded first, also for a run that cannot start. */
  hear(human: HumanMessage | null, followUp: string | null): void {
    if (!human) return
    this.#firstHuman = cutTo(textOf(human.content), MESSAGE_TEXT_MAX)
    this.#add('human_message', 'message', asJson(human), followUp === null ? {} : { follow_up_to_run_id: followUp })
  }

  /** The user's message, then the run's start. */
  begin(human: HumanMessage | null, followUp: string | null): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    this.hear(human, followUp)
    const preview = [...(this.#firstHuman ?? '').slice(0, PREVIEW_MAX * 2)].slice(0, PREVIEW_MAX).join('')
    this.#add('run_start', 'lifecycle', '', { input_preview: preview })
  }

  record(record: AgentRecord): void {
    switch (record.type) {
      case 'llm_request':
        return this.#request(record)
      case 'llm_response':
        return this.#response(record)
      case 'llm_error':
        return this.#add('llm_error', 'trace', record.error, {
          caller: record.caller,
          llm_call_index: this.#indexOf(record.caller, record.messageId)
        })
      case 'tool_start':
        return this.#toolStart(record.call)
      case 'tool_end':
        return this.#toolResult(record.call, record.message)
      case 'middleware':
        return this.#add(cutTo(`middleware:${record.tag}`, TYPE_MAX), 'middleware', record.content, record.metadata)
      case 'summarization':
        return this.#summarized(record.text, record.replacedIds)
      case 'interrupt':
        return record.asked && this.#asked(record.asked)
      case 'input':
        for (const message of record.messages) this.#add('human_message', 'message', asJson(message), {})
        return
      case 'messages':
      case 'update':
      case 'step':
        return
    }
  }

  /** A custom event of the agent [contract 4.2, last row]. */
  custom(name: string, data: Json): void {
    const metadata = typeof data === 'object' && data !== null && !Array.isArray(data) ? data : { data }
    this.#add(cutTo(name, TYPE_MAX), 'trace', '', metadata)
  }

  /**
   * Closes what is open so that the conversation can continue: the message in progress as far as it came, then a result
   * for every open call. Without them the model server would refuse every later run of the thread.
   */
  breakOff(finishReason: string): (AiMessage | ToolMessage)[] {
    return [...this.breakOffMessages(finishReason), ...this.closeCalls()]
  }

  /** The message in progress, as far as it came; open calls wait for their results. */
  breakOffMessages(finishReason: string): AiMessage[] {
    const broken = this.messages.breakOff(finishReason)
    const messages = broken.flatMap(({ message }) => message ?? [])
    // An interrupted call is billed too.
    for (const { usage, model } of broken) if (usage) this.#count('lead_agent', model, usage)
    for (const message of messages) this.#reply(message, String(message.response_metadata.model_name), finishReason)
    return messages
  }

  /** The previous run left calls open for its user to answer: this run has to close them. */
  expectResults(calls: readonly OpenCall[]): void {
    for (const { call, asked } of calls) {
      this.#openCalls.set(call.id, call)
      if (asked !== null) this.#askedIds.set(call.id, asked)
    }
  }

  /** Results for calls that will get no other: model servers refuse a conversation with a call left open. */
  closeCalls(): ToolMessage[] {
    return [...this.#openCalls.values()].map((call) => {
      // Not derived from the call's id: models reuse ids in later runs.
      const result = interruptedResult(call, this.#askedIds.get(call.id) ?? randomUUID())
      this.#toolResult(call, result)
      return result
    })
  }

  /** The question is the call's result until it is answered. */
  #asked(message: ToolMessage): void {
    this.#openCalls.delete(message.tool_call_id)
    this.#add('tool_result', 'message', asJson(message), { tool_name: message.name, status: message.status })
  }

  #toolResult(call: ToolCall, message: ToolMessage): void {
    this.#openCalls.delete(call.id)
    const text = textOf(message.content)
    const about = { tool_name: call.name, tool_call_id: call.id }
    if (message.status === 'error') this.#add('tool_error', 'trace', text, about)
    else this.#add('tool_end', 'trace', text, { ...about, status: message.status })
    this.#add('tool_result', 'message', asJson(message), { tool_name: call.name, status: message.status })
  }

  /** Another attempt goes on: see LiveMessages. */
  keepHalf(): ReturnType<LiveMessages['keepHalf']> {
    return this.messages.keepHalf(this.#asideIds)
  }

  /** A new attempt continues with what the previous one left. */
  beginAttempt(attempt: number): void {
    this.#add('run_restart', 'lifecycle', '', { attempt })
  }

  /** The run's last event. */
  close({ status, failure }: Pick<RunEnd, 'status' | 'failure'>): void {
    if (failure) this.fail(failure.kind, failure.message)
    else this.end(status)
  }

  end(status: string): void {
    this.#add('run_end', 'lifecycle', '', { status })
  }

  fail(kind: string, text: string): void {
    this.#add('run_error', 'lifecycle', text, { error_type: kind })
  }

  /** Which call has ended: the one that announced this message, else the latest of its caller. */
  #indexOf(caller: Caller, messageId: string | undefined): number {
    return this.#openModelCalls.take(caller, messageId) ?? this.#llmCalls
  }

  #request({ caller, model, messages, messageId }: AgentRecord & { type: 'llm_request' }): void {
    this.#openModelCalls.add(++this.#llmCalls, caller, messageId)
    this.usage.called(model)
    if (caller === 'lead_agent') this.#modelName = model
    const aside = caller !== 'lead_agent' && messageId !== undefined && { message_id: messageId }
    const about: JsonObject = { caller, llm_call_index: this.#llmCalls, ...aside }
    this.#add('llm_request', 'trace', { model, messages: [...messages] }, about)
  }

  #response(record: AgentRecord & { type: 'llm_response' }): void {
    const { caller, model, message, usage, finishReason } = record
    this.messages.complete(message.id)
    const content: JsonObject = {
      id: record.responseId,
      model,
      choices: [{ index: 0, message: asChatCompletion(message), finish_reason: finishReason }],
      usage: usage && {
        prompt_tokens: usage.input_tokens,
        completion_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens
      }
    }
    const money = usage ? Math.round(this.usage.moneyFor(model, usage)) : 0
    const about: JsonObject = {
      caller,
      usage: usage && { ...usage },
      ...(money > 0 && { money_micros: money }),
      latency_ms: Math.round(record.latencyMs),
      ...(record.firstTokenMs !== undefined && { first_token_ms: Math.round(record.firstTokenMs) }),
      llm_call_index: this.#indexOf(caller, message.id)
    }
    this.#add('llm_response', 'trace', content, about)
    if (usage) this.#count(caller, model, usage)
    if (caller !== 'lead_agent') return
    this.#modelName = model
    this.#reply(message, model, finishReason)
  }

  /**
   * The lead agent's reply as an event: with calls, or with content (text or blocks); a reply with neither leaves none
   * [contract 4.3]. One that was broken off is an `ai_message` too, whose finish_reason other than `stop` says why.
   */
  #reply(message: AiMessage, model: string, finishReason: string): void {
    if (message.tool_calls.length) {
      for (const call of message.tool_calls) this.#openCalls.set(call.id, call)
      this.#add('ai_tool_call', 'message', asJson(message), { model_name: model, finish_reason: 'tool_calls' })
      return
    }
    if (message.content.length === 0) return
    this.#totals.message_count++
    this.#lastAi = cutTo(textOf(message.content), MESSAGE_TEXT_MAX)
    this.#add('ai_message', 'message', asJson(message), { model_name: model, finish_reason: finishReason })
  }

  /** Three rows for one occurrence: for readers of messages, of traces and of middleware events [Events]. */
  #summarized(text: string, replacedIds: readonly string[]): void {
    const message = { role: 'system', content: text }
    const count = { replaced_count: replacedIds.length }
    this.#add('summary', 'message', message, count)
    this.#add('summarization', 'trace', text, { replaced_message_ids: [...replacedIds], ...count })
    this.#add('middleware:summarize', 'middleware', message, count)
  }

  #toolStart(call: ToolCall): void {
    const args = cutTo(JSON.stringify(call.args), ARGS_MAX)
    this.#openCalls.set(call.id, call)
    this.#add('tool_start', 'trace', '', { tool_name: call.name, tool_call_id: call.id, args })
  }

  #count(caller: Caller, model: string | null, usage: UsageMetadata): void {
    const total = usage.total_tokens || usage.input_tokens + usage.output_tokens
    if (!this.#options.trackTokens || total === 0) return
    this.usage.add(model ?? '', usage)
    const totals = this.#totals
    totals.total_input_tokens += usage.input_tokens
    totals.total_output_tokens += usage.output_tokens
    totals.total_tokens += total
    totals.llm_call_count++
    if (caller.startsWith('subagent:')) totals.subagent_tokens += total
    else if (caller.startsWith('middleware:')) totals.middleware_tokens += total
    else totals.lead_agent_tokens += total
  }

  #add(event_type: string, category: EventCategory, content: Json, metadata: JsonObject): void {
    const kept =
      category === 'trace' ? cutTrace(content, metadata, this.#options.maxTraceContent) : { content, metadata }
    this.unstored.bytes += estimateBytes(kept.content) + estimateBytes(kept.metadata)
    this.#events.push({ event_type, category, created_at: timestamp(), k: this.#k++, ...kept })
  }
}

/** Model calls in progress, by their messages: a graph may have thousands. */
class OpenModelCalls {
  readonly #named = new Map<string, number>()
  readonly #unnamed: { readonly index: number; readonly caller: Caller }[] = []

  add(index: number, caller: Caller, messageId: string | undefined): void {
    if (messageId === undefined) this.#unnamed.push({ index, caller })
    else this.#named.set(messageId, index)
  }

  /** Ends the call that announced this message, else the latest of its caller. Returns its index. */
  take(caller: Caller, messageId: string | undefined): number | undefined {
    const named = messageId === undefined ? undefined : this.#named.get(messageId)
    if (messageId !== undefined && this.#named.delete(messageId)) return named
    const at = this.#unnamed.findLastIndex((call) => call.caller === caller)
    return at < 0 ? undefined : this.#unnamed.splice(at, 1)[0]!.index
  }
}
