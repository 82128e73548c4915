// Memory: adds the user's memory to the prompt at the start of a run, and learns from what the user says in the run.
import type { Message } from '../../base/types.ts'
import { type Middleware, type MiddlewareContext, oncePerRun } from '../middleware.ts'

interface Remembered {
  readonly userId: string
  /** null: the lead agent. */
  readonly agentName: string | null
}

/** Memory access for the agent. */
export interface MemoryPort {
  /** The text for the prompt, or null. Rejects if the memory cannot be read. */
  prompt(of: Remembered): Promise<string | null>
  /** Returns at once: the turn is processed later, together with following ones. */
  learn(turn: Remembered & { readonly threadId: string; readonly messages: readonly Message[] }): void
}

const TAG = 'memory'
const LEAD_AGENT = 'lead_agent'

export function memoryMiddleware(memory: MemoryPort, log: { warn(fields: object, text: string): void }): Middleware {
  const isFirst = oncePerRun()
  return {
    tag: TAG,
    async beforeModel(run) {
      // Once per run: the prompt must not change in the middle of a turn.
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

/** The run's own messages and their answers; other messages of a shared thread may be anybody's. */
function ownTurn(run: MiddlewareContext): readonly Message[] {
  const own = new Set(run.input.inputIds)
  const messages = run.messages()
  const from = messages.findIndex(({ id }) => own.has(id))
  return from < 0 ? [] : messages.slice(from).filter(({ id, type }) => type !== 'human' || own.has(id))
}

function whoseMemory({ input: { userId, assistantId } }: MiddlewareContext): Remembered | null {
  return userId === null ? null : { userId, agentName: assistantId === LEAD_AGENT ? null : assistantId }
}
