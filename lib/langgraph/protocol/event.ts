// An event of LangGraph's protocol v2: its position in the thread, and its encoding.
//
// The position is derived from the frame alone: the run's ordinal in its thread, the frame's n in the run, and the part of what the frame
// becomes. All readers see the same numbers, at any time and on any process. They increase within a thread, with gaps [design 4, rule 13].
import type { Run } from '../../base/types.ts'

/** Parts per frame and frames per run. With a million runs per thread, seq stays below Number.MAX_SAFE_INTEGER. */
export const PARTS_MAX = 2 ** 8
export const FRAMES_MAX = 2 ** 25
const RUN = PARTS_MAX * FRAMES_MAX

export type Namespace = readonly string[]

/** Channels a client may subscribe to, besides `custom:<name>`. */
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
  /** Name of a custom event; null: it has none, or is no custom event. */
  readonly name: string | null
  readonly namespace: Namespace
  /** The whole event as JSON, on one line. */
  readonly json: string
}

export function seqOf(ordinal: number, n: number, part: number): number {
  return ordinal * RUN + n * PARTS_MAX + part
}

/** The run and frame an event's number stands for. */
export function frameAt(seq: number): { readonly ordinal: number; readonly n: number } {
  return { ordinal: Math.floor(seq / RUN), n: Math.floor((seq % RUN) / PARTS_MAX) }
}

/** An event without its position; `json` is its data. */
export interface EventBody {
  readonly method: string
  readonly channel: Channel
  readonly namespace: Namespace
  readonly node?: string
  readonly name?: string
  readonly json: string
}

/** Position of a frame's events. Ids contain the epoch: events undone by a crash are sent again under a new one. */
interface EventPosition {
  readonly run: Pick<Run, 'ordinal'>
  readonly epoch: number
  readonly n: number
}

/** All events of an attempt bear the time of its start: the log stores no other, and all readers must get the same bytes. */
export function eventAt({ run, epoch, n }: EventPosition, part: number, body: EventBody): ProtocolEvent {
  const seq = seqOf(run.ordinal, n, part)
  const id = `${seq}-${epoch.toString(36)}`
  const { method, channel, namespace, node, name = null, json } = body
  const at = namespace.length === 0 ? '[]' : JSON.stringify(namespace)
  const by = node === undefined ? '' : `,"node":${JSON.stringify(node)}`
  const params = `{"namespace":${at},"timestamp":${epoch}${by},"data":${json}}`
  const text = `{"type":"event","event_id":"${id}","seq":${seq},"method":"${method}","params":${params}}`
  return { seq, id, method, channel, name, namespace, json: text }
}

/** Parses an event's id, or a bare number; null: not one of ours. */
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
