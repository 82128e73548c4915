// The store that keeps nothing: full function in plain maps, gone with the process.
import { Refused } from '../refused.ts'
import type { Group, Op, OpName, Outcome, Store } from '../store.ts'
import { memoryApiTokens } from './api-tokens.ts'
import { memoryAssistants } from './assistants.ts'
import { memoryCheckpoints } from './checkpoints.ts'
import { memoryGraphStates } from './graph-states.ts'
import { memoryEvents } from './events.ts'
import { memoryFeedback } from './feedback.ts'
import { memoryCrons } from './crons.ts'
import { memoryWebhooks } from './webhooks.ts'
import { memoryItems } from './items.ts'
import { FRAME_BYTES_MAX, memoryFrames } from './frames.ts'
import { type AnyWriter, copyOf, type Writers } from './rows.ts'
import { memoryRuns, RunRows } from './runs.ts'
import { BYTES_MAX, Sizes } from './sizes.ts'
import { memoryThreads, ThreadRows } from './threads.ts'
import { Undo } from './undo.ts'
import { memoryUsers } from './users.ts'

export interface MemoryOptions {
  /** Keeps feedback too. Default false: the service has feedback with a SQL database only, else answers 503 [Errors]. */
  readonly feedback?: boolean
  /** Bytes of frames kept in all; those of runs that ended first are dropped first. Default FRAME_BYTES_MAX. */
  readonly frameBytesMax?: number
  /** Bytes of everything else, about; beyond it the idle thread that was not written for longest goes. Default BYTES_MAX. */
  readonly bytesMax?: number
  /** A thread has gone, so that others fit. */
  readonly onForget?: (threadId: string) => void
}

/** Opens an empty store. Never fails, and `apply` never rejects: nothing can stand in its way. */
export function openMemoryStore({
  feedback: keepsFeedback = false,
  frameBytesMax = FRAME_BYTES_MAX,
  bytesMax = BYTES_MAX,
  onForget = () => {}
}: MemoryOptions = {}): Store {
  const threadRows = new ThreadRows()
  const runRows = new RunRows()
  const frames = memoryFrames(threadRows, runRows, frameBytesMax)
  const events = memoryEvents(threadRows)
  const graphStates = memoryGraphStates(threadRows, runRows)
  const checkpoints = memoryCheckpoints(threadRows, runRows, graphStates)
  const feedback = memoryFeedback(threadRows)
  const users = memoryUsers()
  const apiTokens = memoryApiTokens(users.reads.byId)
  const assistants = memoryAssistants()
  const runs = memoryRuns(runRows, threadRows, frames, feedback)
  const items = memoryItems()
  const crons = memoryCrons()
  const webhooks = memoryWebhooks(runRows)
  const sizes = new Sizes()
  const threads = memoryThreads(threadRows, {
    putCheckpoint: checkpoints.put,
    // Frames before runs: they are found by the keys of the thread's runs.
    belongings: [frames, events, checkpoints, graphStates, feedback, runRows, sizes]
  })

  const table: Writers<OpName> = {
    'store.ping': () => null,
    ...users.writes,
    ...apiTokens.writes,
    ...assistants.writes,
    ...graphStates.writes,
    ...threads.writes,
    ...runs.writes,
    ...events.writes,
    ...frames.writes,
    ...checkpoints.writes,
    ...items.writes,
    ...crons.writes,
    ...webhooks.writes,
    ...feedback.writes
  }
  const write = (op: Op, undo: Undo): unknown => {
    if (!keepsFeedback && op.name.startsWith('feedback.')) throw new Refused('feedback needs a SQL database')
    // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
    const writer = table[op.name] as AnyWriter
    const result = writer(op, undo)
    sizes.count(op, undo)
    return result
  }

  /** Nothing is kept for ever here anyway: rather the oldest conversation goes than the process. */
  const forgetOldest = (): void => {
    for (const threadId of sizes.beyond(bytesMax)) {
      if (runRows.inFlight(threadId).length) continue
      const undo = new Undo()
      threads.writes['thread.remove']({ name: 'thread.remove', thread_id: threadId, user: null }, undo)
      undo.keep()
      onForget(threadId)
    }
  }

  const applyGroup = ({ ops }: Group): Outcome => {
    const undo = new Undo()
    try {
      const results = ops.map((op) => copyOf(write(copyOf(op), undo)))
      undo.keep()
      return { ok: true, results }
    } catch (error) {
      undo.rollBack()
      return { ok: false, message: error instanceof Error ? error.message : String(error) }
    }
  }

  return {
    users: users.reads,
    apiTokens: apiTokens.reads,
    assistants: assistants.reads,
    graphStates: graphStates.reads,
    threads: threads.reads,
    runs: runs.reads,
    events: events.reads,
    frames: frames.reads,
    checkpoints: checkpoints.reads,
    items: items.reads,
    crons: crons.reads,
    webhooks: webhooks.reads,
    feedback: keepsFeedback ? feedback.reads : null,
    async apply(groups) {
      const outcomes = groups.map(applyGroup)
      frames.sweep()
      if (sizes.isBeyond(bytesMax)) forgetOldest()
      return outcomes
    },
    async close() {}
  }
}
