// Sub-agents of a run: what each says, in a lane of its own below the call that it works for.
import { signal } from '@preact/signals'
import { type Frame, type RunRef, type RunStream, Transcript, type TranscriptMessage } from '../client/colloquy.ts'
import { beside } from './api.ts'
import { t } from './words.ts'

export interface Lane {
  /** Its graph's namespace; that of a lane inside begins with it. */
  readonly path: string
  readonly name: string
  /** The message of the conversation that called it; null: none has been seen. */
  readonly callerId: string | null
  readonly messages: readonly TranscriptMessage[]
}

/** Namespaces of what is called as a tool: what it says is not part of the conversation. */
const TOOL_TASK = /(^|\|)(tools|task):/
/** How often lanes are drawn that are read from the beginning, in ms. */
const DRAW_MS = 50
/** Lanes of one run. */
const LANES_MAX = 64

type Metadata = Readonly<Record<string, unknown>>

/** The lanes of one run, built from its frames. */
export class Lanes {
  readonly #lanes = new Map<string, Omit<Lane, 'messages'> & { readonly transcript: Transcript }>()
  /** Lanes of messages whose first piece alone names it. */
  readonly #pathOf = new Map<string, string>()

  /** @returns whether the frame was a sub-agent's */
  apply(frame: Frame, calls: readonly TranscriptMessage[]): boolean {
    const [mode, ...spaces] = frame.event.split('|')
    if (mode !== 'messages' || !Array.isArray(frame.data)) return false
    const [piece, metadata] = frame.data
    const id = String(piece?.id)
    const path = this.#pathOf.get(id) ?? pathIn(spaces, metadata ?? {})
    if (!TOOL_TASK.test(path)) return false
    this.#pathOf.set(id, path)
    this.#laneOf(path, metadata ?? {}, calls)?.transcript.apply({ ...frame, event: 'messages' })
    return true
  }

  #laneOf(path: string, metadata: Metadata, messages: readonly TranscriptMessage[]) {
    const known = this.#lanes.get(path)
    if (known || this.#lanes.size === LANES_MAX) return known
    const caller = messages.findLast(({ calls }) => calls.length > 0) ?? messages.at(-1)
    const outer = path.split('|')[0]
    const rank = [...this.#lanes.values()].filter(
      (one) => one.callerId === caller?.id && !one.path.includes('|')
    ).length
    const name = nameFor(path.includes('|') ? undefined : caller?.calls[rank]?.args, metadata)
    const callerId = this.#lanes.get(outer!)?.callerId ?? caller?.id ?? null
    const lane = { path, name, callerId, transcript: new Transcript() }
    this.#lanes.set(path, lane)
    return lane
  }

  get list(): readonly Lane[] {
    return [...this.#lanes.values()].map(({ transcript, ...lane }) => ({ ...lane, messages: transcript.messages }))
  }
}

/** The graph whose node says it: from the event, or as the metadata of a first piece has it, which ends with the node. */
function pathIn(spaces: readonly string[], metadata: Metadata): string {
  if (spaces.length > 0) return spaces.join('|')
  const { langgraph_checkpoint_ns: own, checkpoint_ns = own } = metadata
  return typeof checkpoint_ns === 'string' ? checkpoint_ns.split('|').slice(0, -1).join('|') : ''
}

/** As the call names it, or the graph. */
function nameFor(args: string | undefined, { lc_agent_name, langgraph_node }: Metadata): string {
  const called = /"(?:subagent_type|agent|agent_name)"\s*:\s*"([^"\\]{1,80})"/.exec(args ?? '')?.[1]
  return String(called ?? lc_agent_name ?? langgraph_node ?? t('Sub-agent'))
}

/** Which frame of its run it is; -1: none of its log. */
function numberOf(cursor: string | null): number {
  return Number(cursor?.split('-')[1] ?? -1)
}

/** The lanes of a conversation's runs, as far as this page has seen them. */
export class RunLanes {
  readonly list = signal<readonly Lane[]>([])
  #earlier: readonly Lane[] = []
  /** As this page sees them from where it has joined, and as they are shown. */
  #seen = new Lanes()
  #lanes = this.#seen
  /** Reads them from the beginning, where the run was joined later. */
  #stream: RunStream | null = null
  /** The run that was joined later; null: its lanes are read as they come. */
  #joined: RunRef | null = null
  #due: ReturnType<typeof setTimeout> | null = null

  /** A run is followed from now on; `joined`: from its middle. */
  begin(joined: RunRef | null): void {
    this.close()
    this.#earlier = this.list.value
    this.#seen = this.#lanes = new Lanes()
    this.#joined = joined
  }

  /** @returns whether the frame was a sub-agent's */
  take(frame: Frame, messages: readonly TranscriptMessage[]): boolean {
    // Its lanes are read by the other stream; here they are only told apart.
    if (this.#stream) return this.#seen.apply(frame, messages)
    if (!this.#seen.apply(frame, messages)) return false
    if (this.#joined) void this.#fromBeginning(this.#joined, null).catch(() => {})
    return true
  }

  /** Who comes while a call is at work has missed what its sub-agents have said. */
  joins({ event, id }: Frame, messages: readonly TranscriptMessage[]): void {
    if (event !== 'snapshot' || !this.#joined || this.#stream) return
    const last = messages.findLastIndex(({ type }) => type === 'ai')
    const results = messages.length - 1 - last
    if (last < 0 || messages[last]!.calls.length <= results) return
    void this.#fromBeginning(this.#joined, numberOf(id)).catch(() => {})
  }

  /** Shows what was taken. */
  publish(): void {
    const { list } = this.#lanes
    if (list.length > 0) this.list.value = [...this.#earlier, ...list]
  }

  /** A whole run may come at once. */
  #publishSoon(): void {
    if (this.#due !== null) return
    this.#due = setTimeout(() => {
      this.#due = null
      this.publish()
    }, DRAW_MS)
  }

  close(): void {
    this.#stream?.close()
    this.#stream = null
  }

  /** @param last the frame up to which there may be none; null: there are some */
  async #fromBeginning(run: RunRef, last: number | null): Promise<void> {
    const stream = beside.watch(run, { modes: ['messages-tuple'] })
    this.#stream = stream
    const lanes = new Lanes()
    const transcript = new Transcript()
    for await (const frame of stream) {
      if (this.#stream !== stream) return
      if (!lanes.apply(frame, transcript.messages)) transcript.apply(frame)
      else this.#lanes = lanes
      if (this.#lanes === lanes) this.#publishSoon()
      else if (last !== null && numberOf(frame.id) >= last) break
    }
    if (this.#stream === stream) this.close()
  }
}
