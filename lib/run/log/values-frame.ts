// A values frame as logged: the id of its checkpoint, and a few facts about it for readers that do not want the whole
// state. The rest is rendered when somebody reads the frame.
import type { Interrupt } from '../../base/types.ts'

/** Facts about a checkpoint besides its state. */
export interface CheckpointAbout {
  readonly parent_id: string | null
  readonly step: number
  readonly source: string
  /** Open questions to the user. */
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

/** Facts about its checkpoint; null: none, in frames of an earlier version. */
export function aboutIn(bytes: Buffer): CheckpointAbout | null {
  const end = bytes.indexOf(BLANK)
  // Written by `valuesText`.
  return end < 0 ? null : (JSON.parse(bytes.toString('utf8', end + 1)) as CheckpointAbout)
}
