// A refused group: it is not written, its run or request gets the message, and the rest of its batch is kept [Store 2].
import type { Outcome } from './ports/ops.ts'

export class Refused extends Error {}

export function refusal(error: unknown): Outcome & { ok: false } {
  return { ok: false, message: error instanceof Error ? error.message : String(error) }
}
