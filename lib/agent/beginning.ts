// Where the lead agent begins: at its run's input, or where an earlier attempt was cut off.
import type { AiMessage, Interrupt, Json, Message, ToolCall } from '../base/types.ts'
import { type Half, halfOf } from './continued.ts'
import type { AgentInput, EarlierAttempts } from './runtime.ts'

export interface Beginning {
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

export function beginningOf(input: AgentInput): Beginning {
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
