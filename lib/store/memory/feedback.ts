// Feedback in memory: one record a user and run. The service itself has feedback only with a SQL database [Errors]; an
// embedder may ask for it.
import type { Owner } from '../../scope.ts'
import type { Feedback } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { FeedbackReads, OpOf } from '../store.ts'
import { type ThreadOwned, byText, copyOf, type Noun } from './rows.ts'
import type { ThreadRows } from './threads.ts'
import type { Undo } from './undo.ts'

export type FeedbackOps = 'feedback.upsert' | 'feedback.remove' | 'feedback.removeById'

/** Feedback is its author's: a record without an author is nobody's, and not everybody's as other rows are. */
function isBy(owner: Owner): (feedback: Feedback) => boolean {
  return (feedback) => owner === null || feedback.user_id === owner
}

function oldestFirst(left: Feedback, right: Feedback): number {
  return byText(left.created_at, right.created_at) || byText(left.feedback_id, right.feedback_id)
}

/** A noun whose records go with their run as well. */
interface RunOwned {
  forgetRun(threadId: string, runId: string, undo: Undo): void
}

export function memoryFeedback(threads: ThreadRows): Noun<FeedbackReads, FeedbackOps> & ThreadOwned & RunOwned {
  /** By thread, then by run. Lists are replaced, never changed. */
  const byThread = new Map<string, Map<string, readonly Feedback[]>>()
  const of = (threadId: string, runId: string): readonly Feedback[] => byThread.get(threadId)?.get(runId) ?? []

  const replace = (threadId: string, runId: string, list: readonly Feedback[], undo: Undo): void => {
    const before = byThread.get(threadId)
    const runs = before ?? new Map<string, readonly Feedback[]>()
    if (!before) undo.set(byThread, threadId, runs)
    if (list.length) undo.set(runs, runId, list)
    else undo.delete(runs, runId)
  }

  const upsert = ({ feedback }: OpOf<'feedback.upsert'>, undo: Undo): Feedback => {
    threads.require(feedback.thread_id)
    if (feedback.rating !== 1 && feedback.rating !== -1) throw new Refused('rating must be +1 or -1')
    const list = of(feedback.thread_id, feedback.run_id)
    const before = list.find(({ user_id }) => user_id !== null && user_id === feedback.user_id)
    const after = before ? { ...feedback, feedback_id: before.feedback_id } : feedback
    const others = list.filter((one) => one !== before)
    replace(feedback.thread_id, feedback.run_id, [...others, after], undo)
    return after
  }

  const removeWhere = (threadId: string, runId: string, goes: (one: Feedback) => boolean, undo: Undo): boolean => {
    const list = of(threadId, runId)
    const kept = list.filter((one) => !goes(one))
    if (kept.length === list.length) return false
    replace(threadId, runId, kept, undo)
    return true
  }

  return {
    reads: {
      async list(threadId, runId, owner) {
        return copyOf(of(threadId, runId).filter(isBy(owner)).sort(oldestFirst))
      },
      async stats(threadId, runId) {
        const list = of(threadId, runId)
        const positive = list.filter(({ rating }) => rating === 1).length
        return { total: list.length, positive, negative: list.length - positive }
      },
      async byRuns(threadId, runIds, owner) {
        const found = runIds.flatMap((runId) => of(threadId, runId).filter(isBy(owner)))
        return new Map(copyOf(found).map((feedback) => [feedback.run_id, feedback]))
      }
    },
    writes: {
      'feedback.upsert': upsert,
      'feedback.remove': (op, undo) => removeWhere(op.thread_id, op.run_id, isBy(op.user), undo),
      'feedback.removeById': (op, undo) => {
        const isMine = isBy(op.user)
        const goes = (one: Feedback) => one.feedback_id === op.feedback_id && isMine(one)
        return removeWhere(op.thread_id, op.run_id, goes, undo)
      }
    },
    forgetRun: (threadId, runId, undo) => void removeWhere(threadId, runId, () => true, undo),
    forget: (threadId, undo) => undo.delete(byThread, threadId)
  }
}
