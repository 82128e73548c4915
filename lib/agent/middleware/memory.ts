// Memory: adds what is remembered of the user to the prompt at the start of a run, and learns from what the user says in it.
import type { Message } from '../../types.ts'
import { type Middleware, type MiddlewareContext, oncePerRun } from './middleware.ts'

/** Whose memory; of no user there is none. */
export interface Remembered {
  readonly userId: string
  /** null: the lead agent. */
  readonly agentName: string | null
}

/** The memory as the agent needs it. */
export interface MemoryPort {
  /** What to say to the model, or null. A rejection is a memory that cannot be read. */
  prompt(of: Remembered): Promise<string | null>
  /** Returns at once: the turn is read later, together with those that follow. */
  learn(turn: Remembered & { readonly threadId: string; readonly messages: readonly Message[] }): void
}

const TAG = 'memory'
const LEAD_AGENT = 'lead_agent'

export function memoryMiddleware(memory: MemoryPort, log: { warn(fields: object, text: string): void }): Middleware {
  const isFirst = oncePerRun()
  return {
    tag: TAG,
    async beforeModel(run) {
      // Once a run: what it is told in the middle of a turn must not change under it.
      const whose = whoseMemory(run)
      if (whose === null || !isFirst(run)) return
      try {
        const text = await memory.prompt(whose)
        if (text === null) return
        run.instruct(TAG, text)
        await run.note(TAG, {
          name: 'MemoryMiddleware',
          hook: 'before_model',
          action: 'inject',
          changes: { content: text }
        })
      } catch (error) {
        run.signal.throwIfAborted()
        log.warn({ err: error, run_id: run.input.runId }, 'the memory could not be read; the run goes on without it')
      }
    },
    async afterAnswer(run) {
      const whose = whoseMemory(run)
      const messages = ownTurn(run)
      if (whose && messages.length > 0) memory.learn({ ...whose, threadId: run.input.threadId, messages })
    }
  }
}

/** The run's own messages and the answers to them: other messages of a shared thread may be anybody's. */
function ownTurn(run: MiddlewareContext): readonly Message[] {
  const own = new Set(run.input.inputIds)
  const messages = run.messages()
  const from = messages.findIndex(({ id }) => own.has(id))
  return from < 0 ? [] : messages.slice(from).filter(({ id, type }) => type !== 'human' || own.has(id))
}

function whoseMemory({ input: { userId, assistantId } }: MiddlewareContext): Remembered | null {
  return userId === null ? null : { userId, agentName: assistantId === LEAD_AGENT ? null : assistantId }
}
