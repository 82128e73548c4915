// Resolves the user of a call once, in front of the store: what a store implements always gets a user or null [Auth 4, Auth 7].
import { type Owner, ownerOf, type UserArg } from '../base/scope.ts'
import { type Op, type OpName, type OwnedOp, type Result, type Store, type Writer, OWNED_OPS } from './store.ts'

/** Which argument of a read is its user; null: it takes none. */
type UserAt<F> = F extends (...args: infer P) => unknown
  ? P extends [...infer Before, infer Last]
    ? null extends Last
      ? Before['length']
      : null
    : null
  : never

const USER_AT = {
  apiTokens: { byDigest: null, list: 0 },
  assistants: { get: 1, list: 0, versions: 1 },
  threads: { get: 1, ownerOf: null, idsOf: null, search: 1 },
  runs: { get: 1, byKey: 1, list: 2, after: 2, inFlight: null, unfinished: 0, begun: 2, tokens: 1 },
  events: { listMessages: 2, listMessagesByRun: 3, listEvents: 3, nextSeq: null, lastK: null, runsOfMessages: 2 },
  crons: { get: 1, list: 0 },
  items: { get: 2, search: 1, namespaces: 1 },
  feedback: { list: 2, stats: null, byRuns: 2, newest: null },
  aliases: { get: 2, ofThread: 1 },
  search: { find: 1, queued: null, waiting: 0 },
  usage: { list: 1, quotaUse: null }
} as const satisfies Partial<{ [Noun in keyof Store]: UsersAt<NonNullable<Store[Noun]>> }>
type UsersAt<Reads> = { readonly [Method in keyof Reads]: UserAt<Reads[Method]> }

/** A read with a user, extended with the three cases of [Auth 7]; others are unchanged. */
type Asked<F> = F extends (...args: [...infer Before, infer Last]) => infer R
  ? null extends Last
    ? (...args: [...Before, user?: UserArg]) => R
    : F
  : F
type Scoped<Reads> = { readonly [Method in keyof Reads]: Asked<Reads[Method]> }
type ScopedNouns = {
  readonly [Noun in keyof typeof USER_AT]: Scoped<NonNullable<Store[Noun]>> | Extract<Store[Noun], null | undefined>
}

/** What handlers read from: an omitted user is the current one. */
export interface ScopedStore
  extends Pick<Store, 'users' | 'frames' | 'checkpoints' | 'jobs' | 'audit' | 'holds'>,
    ScopedNouns {}

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

export function scopedStore(store: Store): ScopedStore {
  const { users, frames, checkpoints, jobs, audit, holds } = store
  // The table has every method of these nouns, or it would not compile.
  const nouns = Object.keys(USER_AT).map((noun) => [noun, scoped(store, noun as keyof ScopedNouns)])
  return { users, frames, checkpoints, jobs, audit, holds, ...(Object.fromEntries(nouns) as ScopedNouns) }
}

/** Each method is called on its own object, because a store may be made of class instances. */
function scoped(store: Store, noun: keyof ScopedNouns): object | null {
  const reads = store[noun] as Record<string, (...args: unknown[]) => Promise<unknown>> | null
  const methods = Object.entries<number | null>(USER_AT[noun]).map(([name, at]) => {
    const read = (...args: unknown[]) => reads![name]!(...args)
    const asked = async (...args: unknown[]) =>
      read(...args.slice(0, at!), ownerOf(args[at!] as UserArg, `${noun}.${name}`))
    return [name, at === null ? read : asked]
  })
  return reads && Object.fromEntries(methods)
}

/** Resolved here, where the user is known: the committer runs in no user's scope, or in that of whichever request woke it. */
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
