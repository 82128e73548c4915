// Resolves the user of a call once, in front of the store: what a store implements always gets a user or null [Auth 4, Auth 7].
import { type Owner, ownerOf, type UserArg } from '../scope.ts'
import type { Op, OpName, OwnedOp, Result, Store, Writer } from './store.ts'
import { OWNED_OPS } from './store.ts'

/** A read whose last argument is the user, extended with the three cases of [Auth 7]; other reads are unchanged. */
type Asked<F> = F extends (...args: infer P) => infer R
  ? P extends [...infer Before, infer Last]
    ? null extends Last
      ? (...args: [...Before, user?: UserArg]) => R
      : F
    : F
  : never

type Scoped<Reads> = { readonly [Name in keyof Reads]: Asked<Reads[Name]> }

/** What handlers read from: an omitted user is the current one. */
export interface ScopedStore extends Pick<Store, 'users' | 'frames' | 'checkpoints' | 'ttls'> {
  readonly apiTokens: Scoped<Store['apiTokens']>
  readonly assistants: Scoped<Store['assistants']>
  readonly threads: Scoped<Store['threads']>
  readonly runs: Scoped<Store['runs']>
  readonly events: Scoped<Store['events']>
  readonly items: Scoped<Store['items']>
  readonly crons: Scoped<Store['crons']>
  readonly feedback: Scoped<NonNullable<Store['feedback']>> | null
}

/** An op as handlers write it. `name` is separate: the compiler infers K from it. */
type AskedOp<K extends OpName> = {
  readonly name: K
} & (K extends OwnedOp
  ? Omit<Extract<Op, { name: K }>, 'name' | 'user'> & { readonly user?: UserArg }
  : Extract<Op, { name: K }>)

/** What handlers write through. */
export interface ScopedWriter {
  write<K extends OpName>(op: AskedOp<K>): Promise<Result<K>>
}

/** Method by method, so that each is called on its own object: a store may be made of class instances. */
export function scopedStore({
  users,
  apiTokens,
  assistants,
  threads,
  runs,
  events,
  frames,
  checkpoints,
  ttls,
  items,
  crons,
  feedback
}: Store): ScopedStore {
  return {
    users,
    frames,
    checkpoints,
    ttls,
    apiTokens: {
      byDigest: (digest) => apiTokens.byDigest(digest),
      list: async (user) => apiTokens.list(ownerOf(user, 'apiTokens.list'))
    },
    assistants: {
      get: async (assistantId, user) => assistants.get(assistantId, ownerOf(user, 'assistants.get')),
      list: async (user) => assistants.list(ownerOf(user, 'assistants.list')),
      versions: async (assistantId, user) => assistants.versions(assistantId, ownerOf(user, 'assistants.versions'))
    },
    threads: {
      get: async (threadId, user) => threads.get(threadId, ownerOf(user, 'threads.get')),
      ownerOf: (threadId) => threads.ownerOf(threadId),
      search: async (query, user) => threads.search(query, ownerOf(user, 'threads.search'))
    },
    runs: {
      get: async (runId, user) => runs.get(runId, ownerOf(user, 'runs.get')),
      byKey: async (key, user) => runs.byKey(key, ownerOf(user, 'runs.byKey')),
      list: async (threadId, page, user) => runs.list(threadId, page, ownerOf(user, 'runs.list')),
      after: async (threadId, ordinal, user) => runs.after(threadId, ordinal, ownerOf(user, 'runs.after')),
      inFlight: (threadId) => runs.inFlight(threadId),
      unfinished: async (user) => runs.unfinished(ownerOf(user, 'runs.unfinished')),
      tokens: async (threadId, user) => runs.tokens(threadId, ownerOf(user, 'runs.tokens'))
    },
    events: {
      listMessages: async (threadId, page, user) =>
        events.listMessages(threadId, page, ownerOf(user, 'events.listMessages')),
      listMessagesByRun: async (threadId, runId, page, user) =>
        events.listMessagesByRun(threadId, runId, page, ownerOf(user, 'events.listMessagesByRun')),
      listEvents: async (threadId, runId, query, user) =>
        events.listEvents(threadId, runId, query, ownerOf(user, 'events.listEvents')),
      nextSeq: (threadId) => events.nextSeq(threadId),
      lastK: (threadId, runId) => events.lastK(threadId, runId),
      runsOfMessages: async (threadId, messageIds, user) =>
        events.runsOfMessages(threadId, messageIds, ownerOf(user, 'events.runsOfMessages'))
    },
    crons: {
      get: async (cronId, user) => crons.get(cronId, ownerOf(user, 'crons.get')),
      list: async (user) => crons.list(ownerOf(user, 'crons.list')),
      areDue: (now) => crons.areDue(now)
    },
    items: {
      get: async (namespace, key, user) => items.get(namespace, key, ownerOf(user, 'items.get')),
      search: async (query, user) => items.search(query, ownerOf(user, 'items.search')),
      namespaces: async (query, user) => items.namespaces(query, ownerOf(user, 'items.namespaces'))
    },
    feedback: feedback && {
      list: async (threadId, runId, user) => feedback.list(threadId, runId, ownerOf(user, 'feedback.list')),
      stats: (threadId, runId) => feedback.stats(threadId, runId),
      byRuns: async (threadId, runIds, user) => feedback.byRuns(threadId, runIds, ownerOf(user, 'feedback.byRuns'))
    }
  }
}

/** Resolved here, where the user is known: the committer runs in nobody's scope, or in that of whoever woke it. */
export function scopedWriter(writer: Writer): ScopedWriter {
  return {
    // An op with a resolved user is the op of that name; the compiler does not see it while K is open.
    write: async <K extends OpName>(op: AskedOp<K>) => writer.write<K>(resolved(op) as never)
  }
}

function resolved(op: { readonly name: OpName }): object {
  if (!OWNED_OPS.has(op.name)) return op
  const { user } = op as { readonly user?: UserArg }
  const owner: Owner = ownerOf(user, op.name)
  return { ...op, user: owner }
}
