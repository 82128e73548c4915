// A values frame as it is logged: which checkpoint holds the state, and what is told of that checkpoint to who does not want all of
// the state. The rest of it is rendered when somebody reads the frame.
import type { Interrupt } from '../../types.ts'

/** What is known of a checkpoint beside its state. */
export interface CheckpointAbout {
  readonly parent_id: string | null
  readonly step: number
  readonly source: string
  /** Questions to the user that wait at it. */
  readonly interrupts?: readonly Interrupt[]
}

const BLANK = 0x20

export function valuesText(checkpointId: string, about: CheckpointAbout | null): string {
  return about === null ? checkpointId : `${checkpointId} ${JSON.stringify(about)}`
}

/** The id of its checkpoint. */
export function checkpointIn(bytes: Buffer): string {
  const end = bytes.indexOf(BLANK)
  return bytes.toString('latin1', 0, end < 0 ? bytes.length : end)
}

/** What it tells of its checkpoint; null: nothing, as those that an earlier version has written. */
export function aboutIn(bytes: Buffer): CheckpointAbout | null {
  const end = bytes.indexOf(BLANK)
  // What stands behind the id was written by `valuesText`.
  return end < 0 ? null : (JSON.parse(bytes.toString('utf8', end + 1)) as CheckpointAbout)
}
