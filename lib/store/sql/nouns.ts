// The nouns both databases read and write with the same statements.
import type { ThreadReads } from '../store.ts'
import { apiTokenReads, apiTokenWrites, userReads, userWrites } from './users.ts'
import { aliasReads, aliasWrites } from './aliases.ts'
import { assistantReads, assistantWrites } from './assistants.ts'
import { auditReads, auditWrites } from './audit.ts'
import { cronReads, cronWrites } from './crons.ts'
import { type EventDialect, eventReads } from './events.ts'
import { feedbackReads, feedbackWrites, runReads, runRemoval } from './runs.ts'
import { graphStateReads, graphWrites } from './graph-states.ts'
import { quotaWrites } from './quotas.ts'
import { holdReads, holdWrites } from './holds.ts'
import { itemReads, itemWrites } from './items.ts'
import { jobReads, jobWrites } from './jobs.ts'
import { type WordDialect, wordReads } from './search.ts'
import { retentionReads, retentionWrites } from './retention.ts'
import { readsBy, type RunSnapshot, type RunSteps, snapshotsBy } from './steps.ts'
import { threadReads } from './threads.ts'
import { usageReads } from './usage.ts'

/** The reads each database does in its own way. */
interface ReadDialect extends EventDialect {
  readonly search: ThreadReads['search']
  readonly words: WordDialect
  /** All statements of a read see the same moment. */
  readonly snapshot: RunSnapshot
}

export function sqlReads(run: RunSteps, dialect: ReadDialect) {
  return {
    users: readsBy(run, userReads),
    apiTokens: readsBy(run, apiTokenReads),
    assistants: readsBy(run, assistantReads),
    threads: threadReads(run, dialect.search),
    runs: runReads(run),
    events: eventReads(run, dialect),
    graphStates: snapshotsBy(dialect.snapshot, graphStateReads),
    items: itemReads(run, dialect.beside),
    crons: readsBy(run, cronReads),
    jobs: readsBy(run, jobReads),
    audit: readsBy(run, auditReads),
    holds: readsBy(run, holdReads),
    aliases: readsBy(run, aliasReads),
    // A common word is in many texts.
    search: wordReads(dialect.beside, dialect.words),
    retention: readsBy(dialect.beside, retentionReads),
    // Of a year, and of all.
    usage: readsBy(dialect.beside, usageReads),
    feedback: readsBy(run, feedbackReads)
  }
}

export const SQL_WRITES = {
  ...userWrites,
  ...apiTokenWrites,
  ...assistantWrites,
  ...runRemoval,
  ...graphWrites,
  ...itemWrites,
  ...cronWrites,
  ...jobWrites,
  ...auditWrites,
  ...holdWrites,
  ...aliasWrites,
  ...retentionWrites,
  ...quotaWrites,
  ...feedbackWrites
}
