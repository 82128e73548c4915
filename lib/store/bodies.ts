// Bodies: the texts of which states consist, as a database answers them, put together to checkpoints again.
import type { CheckpointHead, StoredCheckpoint } from './store.ts'

/** Which bodies of a checkpoint are asked for. */
export interface Wanted {
  readonly messages: boolean
  /** Names; null: all. */
  readonly channels: readonly string[] | null
}

/** What is wanted by a list of channels, of which messages is one; without a list everything. */
export function wantedOf(channels: readonly string[] | null = null): Wanted {
  return { messages: channels === null || channels.includes('messages'), channels }
}

/** A head with those of its bodies that are wanted. `texts`: their JSON by number. */
export function withBodies(
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

/** Heads of one thread, newest first: the first has its messages, if they are wanted. */
export function pageWithBodies(
  heads: readonly CheckpointHead[],
  wanted: Wanted,
  texts: ReadonlyMap<number, string>,
  nextBody: number
): StoredCheckpoint[] {
  return heads.map((head, at) => withBodies(head, at === 0 ? wanted : { ...wanted, messages: false }, texts, nextBody))
}

/** Names and body numbers of the channels that are wanted. */
export function channelsOf({ channels }: CheckpointHead, wanted: Wanted): [name: string, no: number][] {
  return Object.entries(channels).filter(([name]) => wanted.channels === null || wanted.channels.includes(name))
}

function textOf(texts: ReadonlyMap<number, string>, no: number): string {
  const text = texts.get(no)
  if (text === undefined) throw new Error(`checkpoint body ${no} was never written`)
  return text
}
