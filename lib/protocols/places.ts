// Where an event of a protocol stands: in its run, by its frame and which of the frame's events it is, and in its thread, by its run too.
import type { Run } from '../base/types.ts'
import type { JsonText } from './json-text.ts'
import type { Mark } from './marks.ts'

/** In a run. */
export interface FramePlace {
  readonly epoch: number
  readonly n: number
  readonly part: number
}

/** In a thread. */
export interface Place extends FramePlace {
  readonly ordinal: number
}

/** The first part of a run's end, behind all others of its last frame. */
export const END_PART = 2 ** 20

export function placeText({ ordinal, epoch, n, part }: Place): string {
  return `${ordinal}:${epoch}-${n}.${part}`
}

/** null: not one of ours. */
export function readPlace(text: string | undefined): Place | null {
  const [, ...found] = /^(\d{1,10}):(\d{1,16})-(\d{1,15})\.(\d{1,8})$/.exec(text?.trim() ?? '') ?? []
  const [ordinal, epoch, n, part] = found.map(Number)
  return part === undefined ? null : { ordinal: ordinal!, epoch: epoch!, n: n!, part }
}

/** Whether it stands behind another place of its run; later attempts stand behind earlier ones. */
export function isBehind(one: FramePlace, other: FramePlace): boolean {
  if (one.epoch !== other.epoch) return one.epoch > other.epoch
  return one.n === other.n ? one.part > other.part : one.n > other.n
}

/** The same for places of a thread. */
export function isBehindInThread(one: Place, other: Place): boolean {
  return one.ordinal === other.ordinal ? isBehind(one, other) : one.ordinal > other.ordinal
}

/** Whether nothing before a place of its run stands behind `after`; null: behind the beginning. */
export function isPast({ n, epoch }: Mark<unknown>, after: FramePlace | null): boolean {
  if (after === null) return false
  return epoch === after.epoch ? n <= after.n : epoch < after.epoch
}

/** The same for a place of a thread. */
export function isPastInThread({ ordinal }: Pick<Run, 'ordinal'>, mark: Mark<unknown>, after: Place | null): boolean {
  if (after === null || ordinal > after.ordinal) return false
  return ordinal < after.ordinal || isPast(mark, after)
}

/** Server-sent events that bear their place. */
export const placedEvents = {
  bytes: (events: readonly { readonly json: JsonText; readonly at: Place }[]): Buffer =>
    Buffer.from(events.map(({ json, at }) => `id: ${placeText(at)}\ndata: ${json}\n\n`).join(''))
}
