// The conversation in a graph's state: what its new messages record (model usage, tool calls and their results), and which messages
// are still in progress.
import type { MessageLimits } from '../../conversation/chunk.ts'
import type { Json, Message, ToolCall } from '../../base/types.ts'
import { type Listener, MessageStreams } from './message-streams.ts'

export class Conversation {
  readonly #listener: Listener
  readonly #streams: MessageStreams
  readonly #calls = new Map<string, ToolCall>()
  /** The messages of the newest state. */
  messages: readonly Message[] = []

  /** @param limits of each message in progress */
  constructor(listener: Listener, limits?: MessageLimits) {
    this.#listener = listener
    this.#streams = new MessageStreams(listener, (id) => this.#before(id), limits)
  }

  /**
   * Takes a chunk, or a whole message from outside the state.
   * @param data `[message, metadata]`
   * @param isFramed it is shown as it is, by a frame
   * @throws AgentError for a message, or a step, that is too large
   */
  chunk(data: Json, namespace: readonly string[], isFramed = false): void {
    this.#streams.chunk(data, namespace, (id) => this.messages.some((one) => one.id === id), isFramed)
  }

  /** A message of the state is new. @returns false: it has no records of its own (neither an answer nor a tool's result) */
  join(message: Message): boolean {
    if (message.type === 'ai') {
      this.#streams.join(message)
      this.remember(message)
      for (const call of message.tool_calls) this.#listener.record({ type: 'tool_start', call })
      return true
    }
    if (message.type !== 'tool') return false
    const { tool_call_id: id, name } = message
    const call = this.#calls.get(id) ?? { name: name ?? '', args: {}, id, type: 'tool_call' }
    const shown = this.#streams.shownOf(message.id)
    this.#listener.record({ type: 'tool_end', call, message: { ...message, name: name ?? call.name }, ...shown })
    return true
  }

  /** Keeps the tool calls of a message that was recorded earlier: results name their call by id only. */
  remember(message: Message): void {
    if (message.type === 'ai') for (const call of message.tool_calls) this.#calls.set(call.id, call)
  }

  /** End of a step: messages in progress that have not joined by now never will. */
  step(): void {
    this.#streams.step()
  }

  #before(id: string): readonly Message[] {
    const at = this.messages.findIndex((message) => message.id === id)
    return at < 0 ? this.messages : this.messages.slice(0, at)
  }
}
