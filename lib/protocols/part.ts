// A part of what a run says, and of how it ends, in no protocol's words.
import type { Interrupt, Json, JsonObject, Run } from '../base/types.ts'

export type BlockKind = 'text' | 'reasoning'

export type Part =
  /** An attempt begins; what an earlier one has begun goes on under the same id, or is cut when another message begins. */
  | { readonly type: 'begin'; readonly run: Run; readonly isFirst: boolean }
  | { readonly type: 'message'; readonly message: string }
  | { readonly type: 'open' | 'close'; readonly kind: BlockKind; readonly message: string; readonly block: string }
  | {
      readonly type: 'delta'
      readonly kind: BlockKind
      readonly block: string
      readonly message: string
      readonly text: string
    }
  | { readonly type: 'media'; readonly message: string; readonly content: JsonObject }
  | { readonly type: 'call'; readonly message: string; readonly id: string; readonly name: string }
  | { readonly type: 'args'; readonly id: string; readonly text: string }
  /** Its arguments are whole; `error`: they are none. */
  | {
      readonly type: 'called'
      readonly message: string
      readonly id: string
      readonly name: string
      readonly args: Json
      readonly error: string | null
    }
  | {
      readonly type: 'result'
      readonly message: string
      readonly id: string
      readonly name: string | null
      readonly content: Json
      readonly text: string
      readonly isError: boolean
      /** Of its message. */
      readonly artifact: Json
      readonly isOfRun: boolean
    }
  /** What stands in place of a result until the user has answered. */
  | { readonly type: 'asked'; readonly text: string }
  | {
      readonly type: 'done'
      readonly message: string
      readonly usage: JsonObject | null
      readonly reason: string | null
    }
  | { readonly type: 'data'; readonly name: string; readonly data: Json }
  | { readonly type: 'end'; readonly end: End }

export interface Call {
  readonly id: string
  readonly name: string
  readonly args: Json
  readonly message: string
}

/** How a run has ended. */
export interface End {
  readonly run: Run
  readonly questions: readonly Interrupt[]
  /** Calls without a result. */
  readonly calls: readonly Call[]
  readonly failure: string | null
  /** Why its last answer ended. */
  readonly reason: string | null
  /** Of its answers, summed. */
  readonly usage: JsonObject | null
}
