// An agent that does nothing but tell deltas: so many, so large, so fast, beginning when it is told to.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent, AgentInput, Sink } from '../lib/agent/runtime.ts'
import { type AiMessage, textOf } from '../lib/types.ts'

/** The last human message is one of these, as JSON. */
export interface Script {
  readonly deltas: number
  /** Characters of a delta. */
  readonly size: number
  /** Deltas a second; 0: as fast as they go, 16 in a turn of the loop. */
  readonly rate: number
}

const TURN = 16

/** `begin`: runs wait for it before their first delta. `onEmit` is told when each delta was emitted. */
export function benchAgent(begin: () => Promise<void>): Agent {
  return {
    models: () => [],
    async start(input: AgentInput, sink: Sink, signal: AbortSignal) {
      const last = input.messages.at(-1)
      // The bench wrote it.
      const script = JSON.parse(textOf(last?.content ?? '{}')) as Script
      const text = 'x'.repeat(script.size)
      await begin()
      await (script.rate === 0
        ? flatOut(script, text, input.runId, sink, signal)
        : paced(script, text, input.runId, sink, signal))
      sink.record({
        type: 'llm_response',
        caller: 'lead_agent',
        model: 'bench',
        responseId: 'bench',
        message: messageOf(input.runId, text.repeat(script.deltas)),
        finishReason: 'stop',
        usage: null,
        latencyMs: 0
      })
      sink.record({ type: 'step', node: 'agent' })
    }
  }
}

async function flatOut(
  { deltas }: Script,
  text: string,
  messageId: string,
  sink: Sink,
  signal: AbortSignal
): Promise<void> {
  for (let i = 0; i < deltas && !signal.aborted; i++) {
    const hasSpace = sink.emit({ type: 'delta', messageId, model: 'bench', text })
    if (!hasSpace) await sink.space()
    if (i % TURN === TURN - 1) await new Promise((resolve) => setImmediate(resolve))
  }
}

async function paced(
  { deltas, rate }: Script,
  text: string,
  messageId: string,
  sink: Sink,
  signal: AbortSignal
): Promise<void> {
  const began = performance.now()
  for (let i = 0; i < deltas && !signal.aborted; i++) {
    const wait = began + (i * 1000) / rate - performance.now()
    if (wait > 1) await sleep(wait)
    if (!sink.emit({ type: 'delta', messageId, model: 'bench', text })) await sink.space()
  }
}

function messageOf(id: string, content: string): AiMessage {
  return {
    type: 'ai',
    id,
    content,
    name: null,
    additional_kwargs: {},
    response_metadata: {},
    tool_calls: [],
    invalid_tool_calls: [],
    usage_metadata: null
  }
}
