// A joining: who wants to read a run, in which modes, and from where on.
import type { Wire } from '../../wire.ts'
import type { Reader } from './joiner.ts'
import type { Position } from './sse.ts'

export interface Joining {
  readonly wire: Wire
  readonly reader: Reader
  /** null: those the run was created for. */
  readonly modes: readonly string[] | null
  /** null: nothing was seen. */
  readonly position: Position
  /** Its going away may cancel the run (on_disconnect). */
  readonly isCreator?: boolean
  /** One that has seen nothing begins with how the run stands, not with its first frame. */
  readonly isSnapshot?: boolean
}
