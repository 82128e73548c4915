// Bodies: the JSON texts a state consists of, assembled into checkpoints.
import type { CheckpointHead, StoredCheckpoint } from './store.ts'

/** Which bodies of a checkpoint to read. */
export interface Wanted {
  readonly messages: boolean
  /** Names; null: all. */
  readonly channels: readonly string[] | null
}

/** The bodies a list of channels asks for (messages is one of them); without a list, all. */
export function wantedOf(channels: readonly string[] | null = null): Wanted {
  return { messages: channels === null || channels.includes('messages'), channels }
}

/** Checkpoints with the bodies asked for. `texts`: their JSON by number. */
function withBodies(
  head: CheckpointHead,
  wanted: Wanted,
  texts: ReadonlyMap<number, string>,
  nextBody: number
): StoredCheckpoint {
  const channelBodies = channelsOf(head, wanted).map(([name, no]) => ({ name, no, json: textOf(texts, no) }))
  const messageBodies: { no: number; json: string }[] = []
  for (const [from, to] of wanted.messages ? head.messages : [])
    for (let no = from; no <= to; no++) messageBodies.push({ no, json: textOf(texts, no) })
  return { messageBodies, channelBodies, nextBody, ...head }
}

/** Heads of one thread, newest first; only the first gets its messages, if they are asked for. */
export function pageWithBodies(
  heads: readonly CheckpointHead[],
  wanted: Wanted,
  texts: ReadonlyMap<number, string>,
  nextBody: number
): StoredCheckpoint[] {
  return heads.map((head, at) => withBodies(head, at === 0 ? wanted : { ...wanted, messages: false }, texts, nextBody))
}

/** Names and body numbers of the channels asked for. */
export function channelsOf({ channels }: CheckpointHead, wanted: Wanted): [name: string, no: number][] {
  return Object.entries(channels).filter(([name]) => wanted.channels === null || wanted.channels.includes(name))
}

/** A head names a body that is not there: it was read before the head's thread was pruned, or the database has lost it. */
export class BodyMissing extends Error {}

function textOf(texts: ReadonlyMap<number, string>, no: number): string {
  const text = texts.get(no)
  if (text === undefined) throw new BodyMissing(`checkpoint body ${no} was never written`)
  return text
}
