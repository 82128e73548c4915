// An event of LangGraph's protocol v2: where it stands in its thread, and how it is written.
//
// Its place follows from the frame that it is made of, and from nothing else: the ordinal of the run in its thread, the n of the frame
// in the run, and which part of what is made of the frame it is. So whoever asks, whenever and wherever, sees the same numbers. They
// grow within a thread; numbers between them are left out [design 4, rule 13].
import type { Run } from '../../types.ts'

/** Parts of one frame, frames of one run: together with a million runs of a thread below the largest exact integer. */
export const PARTS_MAX = 2 ** 8
const FRAMES_MAX = 2 ** 25
const RUN = PARTS_MAX * FRAMES_MAX

export type Namespace = readonly string[]

/** What a client may subscribe to; `custom:<name>` besides. */
export const CHANNELS = [
  'values',
  'updates',
  'messages',
  'tools',
  'custom',
  'lifecycle',
  'input',
  'checkpoints',
  'tasks'
] as const
export type Channel = (typeof CHANNELS)[number]

export interface ProtocolEvent {
  readonly seq: number
  readonly id: string
  readonly method: string
  readonly channel: Channel
  /** Of a custom event that has one. */
  readonly name: string | null
  readonly namespace: Namespace
  /** The whole of it, on one line. */
  readonly json: string
}

export function seqOf(ordinal: number, n: number, part: number): number {
  return ordinal * RUN + n * PARTS_MAX + part
}

/** The run, and the frame in it, that an event with this number was made of. */
export function frameAt(seq: number): { readonly ordinal: number; readonly n: number } {
  return { ordinal: Math.floor(seq / RUN), n: Math.floor((seq % RUN) / PARTS_MAX) }
}

/** What an event is about, before it has its place. `json`: its data. */
export interface Told {
  readonly method: string
  readonly channel: Channel
  readonly namespace: Namespace
  readonly node?: string
  readonly name?: string
  readonly json: string
}

/** Where events of one attempt at a run stand. The epoch is part of every id: what a crash has taken back is told under another one. */
export interface Place {
  readonly run: Pick<Run, 'ordinal'>
  readonly epoch: number
  readonly n: number
}

/** The time of an attempt's events is its beginning: a log tells no other, and every reader is to see the same bytes. */
export function eventAt({ run, epoch, n }: Place, part: number, told: Told): ProtocolEvent {
  const seq = seqOf(run.ordinal, n, part)
  const id = `${seq}-${epoch.toString(36)}`
  const { method, channel, namespace, node, name = null, json } = told
  const at = namespace.length === 0 ? '[]' : JSON.stringify(namespace)
  const by = node === undefined ? '' : `,"node":${JSON.stringify(node)}`
  const params = `{"namespace":${at},"timestamp":${epoch}${by},"data":${json}}`
  const text = `{"type":"event","event_id":"${id}","seq":${seq},"method":"${method}","params":${params}}`
  return { seq, id, method, channel, name, namespace, json: text }
}

/** The number in an event's id, or a bare one; null: it is none of ours. */
export function seqIn(id: string | undefined): number | null {
  const [, digits] = /^(\d{1,16})(?:-[0-9a-z]{1,12})?$/.exec(id?.trim() ?? '') ?? []
  const seq = Number(digits)
  return digits !== undefined && Number.isSafeInteger(seq) ? seq : null
}

/** The epoch in an event's id. */
export function epochIn(id: string): number | null {
  const [, text] = /^\d{1,16}-([0-9a-z]{1,12})$/.exec(id.trim()) ?? []
  return text === undefined ? null : Number.parseInt(text, 36)
}
