// Where an event of a protocol stands in its thread: which run, which frame, which of the frame's events.

export interface Place {
  readonly ordinal: number
  readonly epoch: number
  readonly n: number
  readonly part: number
}

export function placeText({ ordinal, epoch, n, part }: Place): string {
  return `${ordinal}:${epoch}-${n}.${part}`
}

/** null: not one of ours. */
export function readPlace(text: string | undefined): Place | null {
  const [, ...found] = /^(\d{1,10}):(\d{1,16})-(\d{1,15})\.(\d{1,8})$/.exec(text?.trim() ?? '') ?? []
  const [ordinal, epoch, n, part] = found.map(Number)
  return part === undefined ? null : { ordinal: ordinal!, epoch: epoch!, n: n!, part }
}

/** What stands behind a place; later attempts stand behind earlier ones. */
export function isBehind(one: Place, other: Place): boolean {
  if (one.ordinal !== other.ordinal) return one.ordinal > other.ordinal
  if (one.epoch !== other.epoch) return one.epoch > other.epoch
  return one.n === other.n ? one.part > other.part : one.n > other.n
}

/** Server-sent events that bear their place. */
export const placedEvents = {
  bytes: (events: readonly { readonly json: string; readonly at: Place }[]): Buffer =>
    Buffer.from(events.map(({ json, at }) => `id: ${placeText(at)}\ndata: ${json}\n\n`).join(''))
}
