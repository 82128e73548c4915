// A values frame as logged: a reference to the state, and a few facts about it for readers that do not want the whole state. What refers
// to a checkpoint of ours is its id; what an agent has shown itself names the bodies it consists of. The rest is rendered when somebody
// reads the frame.
import { bodyNames, type ChannelVersion, runNamespace } from '../../conversation/state.ts'
import { type NamedValues, ShownBodies, versionsIn } from '../../conversation/values.ts'
import type { GraphStateReads } from '../../store/store.ts'
import type { Interrupt, Run } from '../../base/types.ts'

/** Facts about a checkpoint besides its state. */
export interface CheckpointAbout {
  readonly parent_id: string | null
  readonly step: number
  readonly source: string
  /** Open questions to the user. */
  readonly interrupts?: readonly Interrupt[]
}

const BLANK = 0x20
const BRACE = 0x7b

export function valuesText(checkpointId: string, about: CheckpointAbout | null): string {
  return about === null ? checkpointId : `${checkpointId} ${JSON.stringify(about)}`
}

export function namedText(values: NamedValues): string {
  return JSON.stringify(values)
}

/** It names bodies, not a checkpoint. */
export function isNamed(bytes: Buffer): boolean {
  return bytes[0] === BRACE
}

/** The names of its bodies; null: it refers to a checkpoint. */
export function namedIn(bytes: Buffer): NamedValues | null {
  // Written by `namedText`.
  return isNamed(bytes) ? (JSON.parse(bytes.toString('utf8')) as NamedValues) : null
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

/** What readers are shown of a values frame. */
export interface ShownValues {
  readonly event: string
  readonly json: string
}

/** The states of threads as streams show them. */
export interface ShownStates extends Pick<GraphStateReads, 'bodies'> {
  /** JSON of a state, with open questions; `checkpointId` null: the thread's newest. null: there is none. */
  shown(threadId: string, checkpointId: string | null): Promise<string | null>
}

/** Bodies that several frames of one run name are read once. */
export interface ReadBodies {
  bodies?: ShownBodies
}

/** Renders a values frame of a run. null: a part of the state is gone. */
export async function readValues(
  bytes: Buffer,
  run: Pick<Run, 'thread_id' | 'key'>,
  states: ShownStates,
  read: ReadBodies
): Promise<ShownValues | null> {
  if (bytes[0] !== BRACE) {
    const json = await states.shown(run.thread_id, checkpointIn(bytes))
    return json === null ? null : { event: 'values', json }
  }
  const named = namedIn(bytes)!
  read.bodies ??= new ShownBodies()
  const { own, base } = versionsIn(named)
  await find(runNamespace(run.key), own, read.bodies.own)
  await find('', base, read.bodies.base)
  const json = read.bodies.json(named)
  return json === null ? null : { event: named.event, json }

  async function find(ns: string, versions: readonly ChannelVersion[], known: ShownBodies['own']): Promise<void> {
    const wanted = versions.filter((version) => bodyNames(version).some((name) => !known.has(name)))
    if (wanted.length === 0) return
    for (const body of await states.bodies(run.thread_id, ns, wanted)) known.set(body.name, body)
  }
}
