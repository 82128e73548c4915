// An agent that does nothing but tell deltas: so many, so large, so fast, beginning when it is told to.
import type { Agent, AgentInput, Sink } from '../lib/agent/runtime.ts'
import { type AiMessage, textOf } from '../lib/base/types.ts'
import { stamped } from './stamp.ts'

/** The last human message is one of these, as JSON. */
export interface Script {
  readonly deltas: number
  /** Characters of a delta. */
  readonly size: number
  /** Deltas a second; 0: as fast as they go. */
  readonly rate: number
  /** Deltas in a turn of the loop, when they go as fast as they can. Default 16. */
  readonly turn?: number
  /** Every delta says when it was made, for who measures how old it becomes. */
  readonly isStamped?: boolean
  /** Begins by itself and not at the word: where the beginning is measured, or nobody waits for it. */
  readonly atOnce?: boolean
  /** The run stays open behind its last delta until the word to begin is given once more. */
  readonly hold?: boolean
}

export const TURN = 16

/** `begin`: runs wait for it before their first delta, unless their script says otherwise. */
export function benchAgent(begin: () => Promise<void>): Agent {
  return {
    models: () => [],
    async start(input: AgentInput, sink: Sink, signal: AbortSignal) {
      const last = input.messages.at(-1)
      // The bench wrote it.
      const script = JSON.parse(textOf(last?.content ?? '{}')) as Script
      if (!script.atOnce) await begin()
      await (script.rate === 0 ? flatOut : paced)(script, input.runId, sink, signal)
      if (script.hold) await begin()
      sink.record({
        type: 'llm_response',
        caller: 'lead_agent',
        model: 'bench',
        responseId: 'bench',
        message: messageOf(input.runId, textOfScript(script)),
        finishReason: 'stop',
        usage: null,
        latencyMs: 0
      })
      sink.record({ type: 'step', node: 'agent' })
    }
  }
}

async function flatOut(script: Script, messageId: string, sink: Sink, signal: AbortSignal): Promise<void> {
  const { deltas, turn = TURN } = script
  for (let i = 0; i < deltas && !signal.aborted; i++) {
    const hasSpace = sink.emit({ type: 'delta', messageId, model: 'bench', text: piece(script, i) })
    if (!hasSpace) await sink.space()
    if (i % turn === turn - 1) await new Promise((resolve) => setImmediate(resolve))
  }
}

async function paced(script: Script, messageId: string, sink: Sink, signal: AbortSignal): Promise<void> {
  const { deltas, rate } = script
  const began = performance.now()
  for (let i = 0; i < deltas && !signal.aborted; ) {
    const due = Math.min(deltas, Math.floor(((performance.now() - began) / 1000) * rate) + 1)
    for (; i < due; i++)
      if (!sink.emit({ type: 'delta', messageId, model: 'bench', text: piece(script, i) })) await sink.space()
    if (i < deltas) await beat(1000 / rate)
  }
}

/** Runs at one pace, and what goes on with each at the next beat. */
const waiting = new Map<number, (() => void)[]>()

/**
 * The next beat of a metronome that all runs of one pace share: what a timer a run would cost is no cost of the gateway, whose
 * deltas come from sockets.
 */
function beat(ms: number): Promise<void> {
  const others = waiting.get(ms)
  if (others) return new Promise((resolve) => others.push(resolve))
  const first: (() => void)[] = []
  waiting.set(ms, first)
  setTimeout(() => {
    waiting.delete(ms)
    for (const resolve of first) resolve()
  }, ms)
  return new Promise((resolve) => first.push(resolve))
}

// ------------------------------------------------------------------------------------------------ what is said

const SYLLABLES = 'ra ne to li sam ver kin dor pel usa mi tan gor fe win ost hal bri ce mun'.split(' ')
const PROSE_CHARS = 64 * 1024
/** Text that no compression makes nothing of: words made of syllables, the same ones every time. */
const PROSE = prose()

function prose(): string {
  let seed = 1
  // A linear congruence: what comes out need not be good, only the same for everybody.
  const next = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * below)
  }
  let text = ''
  while (text.length < PROSE_CHARS) {
    for (let left = 1 + next(4); left > 0; left--) text += SYLLABLES[next(SYLLABLES.length)]
    text += ' '
  }
  return text
}

/** The i-th delta of a script. */
export function piece({ size, isStamped = false }: Script, i: number): string {
  const at = (i * size) % (PROSE.length - size)
  const text = PROSE.slice(at, at + size)
  return isStamped ? stamped(text) : text
}

function textOfScript(script: Script): string {
  return Array.from({ length: script.deltas }, (_, i) => piece(script, i)).join('')
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
