// Translates the log of a run to protocol v2, frame by frame. The result depends only on earlier frames: state in,
// events and state out, so that every reader gets the same events, live, late, or on another process.
import { Kind } from '../../run/log/filter.ts'
import type { RawFrame } from '../../run/log/segment.ts'
import { dataOf, stopError } from '../../run/log/sse.ts'
import { aboutIn, checkpointIn } from '../../run/log/values-frame.ts'
import { isInFlight, isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { type Channel, eventAt, FRAMES_MAX, type Namespace, PARTS_MAX, type ProtocolEvent, type Told } from './event.ts'
import { finishAll, finishCut, finishGiven, finishTask, finishTasks, hear, isSpoken, type Open } from './messages.ts'

/** Translation state. Immutable. */
export interface RunState {
  readonly open: Open
  /** Ids of the questions already sent. */
  readonly asked: ReadonlySet<string>
  /** Below the root, those that have begun and not ended. */
  readonly namespaces: ReadonlyMap<string, Namespace>
  /** Of these, those whose tasks are over: completed, unless it turns out that the run has failed with them. */
  readonly ended: readonly Namespace[]
  /** Those that have completed last: what is heard of one of them late does not begin it again. */
  readonly over: readonly string[]
  /** Which task makes a call of a tool, by the call's id. */
  readonly calls: ReadonlyMap<string, Namespace>
  /** What an error frame has said. */
  readonly failure: string | null
}

export const BEGINNING: RunState = {
  open: new Map(),
  asked: new Set(),
  namespaces: new Map(),
  ended: [],
  over: [],
  calls: new Map(),
  failure: null
}

interface Step {
  readonly state: RunState
  readonly events: readonly ProtocolEvent[]
}

/** The events of a frame; null stands for a skipped one, so that the numbering is stable. */
interface Telling {
  readonly state: RunState
  readonly told: readonly (Told | null)[]
}

/** @param values JSON of the state that a values frame refers to; null: nobody wants it */
export function translate(run: Run, state: RunState, frame: RawFrame, values: string | null): Step {
  const before = frame.kind === Kind.tasks || frame.kind === Kind.error ? { state, told: [] } : complete(state)
  const telling = tell(run, before.state, frame, values)
  // What a frame says itself stands behind the ends that it brings: of too many, the first ends are left out.
  const told = [...before.told, ...telling.told].slice(-PARTS_MAX)
  const { epoch, n } = frame
  return {
    state: telling.state,
    events: told.flatMap((one, part) => (one ? [eventAt({ run, epoch, n }, part, one)] : []))
  }
}

function tell(run: Run, state: RunState, frame: RawFrame, values: string | null): Telling {
  switch (frame.kind) {
    case Kind.metadata:
      return tellStart(run, state)
    case Kind.values:
      return tellValues(state, frame, values)
    case Kind.messages:
      return tellMessages(state, heardIn(frame))
    case Kind.updates:
      return below(state, heardIn(frame), tellUpdates)
    case Kind.custom:
    case Kind.extension:
      return below(state, heardIn(frame), tellCustom)
    case Kind.tasks:
      return below(state, heardIn(frame), tellTasks)
    case Kind.state:
      return below(state, heardIn(frame), tellState)
    case Kind.envelope:
      return below(state, heardIn(frame), tellEnvelope)
    case Kind.tools:
      return tellTool(state, heardIn(frame))
    case Kind.error:
      return { state: { ...state, failure: failureIn(frame) }, told: [] }
    default:
      return { state, told: [] }
  }
}

const ROOT: Namespace = []

/** Of an attempt. What a crash has cut in the one before it is finished without a reason: it is said anew, under another id. */
function tellStart(run: Run, state: RunState): Telling {
  const { open, told } = finishCut(state.open)
  const running = lifecycle(ROOT, { event: 'running', graph_name: graphOf(run) })
  return { state: { ...state, open }, told: [...told, running] }
}

/** What has ended below the root, the innermost first. */
function complete(state: RunState): { state: RunState; told: Told[] } {
  if (state.ended.length === 0) return { state, told: [] }
  const namespaces = new Map(state.namespaces)
  const names = state.ended.map((namespace) => namespace.join('|'))
  for (const name of names) namespaces.delete(name)
  const over = [...state.over, ...names].slice(-OVER_MAX)
  const told = state.ended.map((namespace) => lifecycle(namespace, endOf(namespace, 'completed')))
  return { state: { ...state, namespaces, ended: [], over }, told }
}

const OVER_MAX = 64

function endOf(namespace: Namespace, event: string): JsonObject {
  return { event, graph_name: nameOf(namespace.at(-1)!) }
}

/** Which graph a run is of. */
export function graphOf({ assistant_id, kwargs }: Run): string {
  return typeof kwargs.graph_id === 'string' ? kwargs.graph_id : (assistant_id ?? 'lead_agent')
}

function lifecycle(namespace: Namespace, about: JsonObject): Told {
  return { method: 'lifecycle', channel: 'lifecycle', namespace, json: JSON.stringify(about) }
}

function data(channel: Channel, namespace: Namespace, json: string, about: Partial<Told> = {}): Told {
  return { method: channel, channel, namespace, json, ...about }
}

// ------------------------------------------------------------------------------------------------ the end of a run

/**
 * After the last frame: exactly one terminal event for the root, preceded by one for everything open below. The terminal one has the
 * last number of its run, also for who finds that the frames are no longer kept.
 */
export function translateEnd(run: Run, state: RunState, at: Pick<RawFrame, 'epoch' | 'n'>): readonly ProtocolEvent[] {
  const event = statusOf(run)
  const isCut = run.status === 'interrupted'
  const finished = event === 'completed' ? finishAll(state.open) : isCut ? finishCut(state.open) : null
  const done = event === 'failed' ? { state, told: [] } : complete(state)
  const open = [...done.state.namespaces.values()].reverse()
  const below = [...done.told, ...open.map((namespace) => lifecycle(namespace, endOf(namespace, event)))]
  const error = event === 'failed' ? (state.failure ?? run.error ?? stopError(run)?.message ?? 'The run failed') : null
  const root = lifecycle(ROOT, { event, graph_name: graphOf(run), ...(error !== null && { error }) })
  const told = [...(finished?.told ?? []), ...below]
  const { epoch } = at
  // No frame follows: they may be as many as there are.
  const place = (i: number) => ({ run, epoch, n: at.n + Math.floor(i / PARTS_MAX) })
  const ends = told.map((one, i) => eventAt(place(i), i % PARTS_MAX, one))
  return [...ends, eventAt({ run, epoch, n: FRAMES_MAX - 1 }, PARTS_MAX - 1, root)]
}

/** As the protocol says it. */
export function statusOf(run: Run): 'running' | 'completed' | 'failed' | 'interrupted' {
  const { status } = run
  if (isInFlight({ status })) return 'running'
  if (status === 'success') return 'completed'
  return status === 'interrupted' && stopError(run) === null ? 'interrupted' : 'failed'
}

// ------------------------------------------------------------------------------------------------ what a run tells

/** What was still being said, the checkpoint, its state, the questions that wait there. */
function tellValues(state: RunState, frame: RawFrame, values: string | null): Telling {
  const { open, told: finished } = finishTasks(state.open)
  const { interrupts = [], ...checkpoint } = aboutIn(frame.bytes) ?? {}
  const { asked, told: asking } = ask(state.asked, ROOT, interrupts)
  const isKnown = 'step' in checkpoint
  const parent = isKnown && checkpoint.parent_id !== null ? { parent_id: checkpoint.parent_id } : {}
  const about = isKnown && {
    id: checkpointIn(frame.bytes),
    ...parent,
    step: checkpoint.step,
    source: checkpoint.source
  }
  const told = [
    ...finished,
    about ? data('checkpoints', ROOT, JSON.stringify(about)) : null,
    values === null ? null : data('values', ROOT, withoutInterrupts(values)),
    ...asking
  ]
  return { state: { ...state, open, asked }, told }
}

const INTERRUPT = '__interrupt__'

/** Questions have events of their own. */
function withoutInterrupts(json: string): string {
  if (!json.includes(`"${INTERRUPT}"`)) return json
  const values: unknown = JSON.parse(json)
  if (!isObject(values) || !(INTERRUPT in values)) return json
  const { [INTERRUPT]: _, ...rest } = values
  return JSON.stringify(rest)
}

/** Each question is sent once, however often the log repeats it. */
function ask(
  before: ReadonlySet<string>,
  namespace: Namespace,
  interrupts: readonly { readonly id: string; readonly value: Json }[]
): { asked: ReadonlySet<string>; told: Told[] } {
  const fresh = interrupts.filter(({ id }) => !before.has(id))
  if (fresh.length === 0) return { asked: before, told: [] }
  const told = fresh.map(({ id, value }) =>
    data('input', namespace, JSON.stringify({ interrupt_id: id, payload: value ?? null }), {
      method: 'input.requested'
    })
  )
  return { asked: new Set([...before, ...fresh.map(({ id }) => id)]), told }
}

/** A frame of some namespace. */
interface Heard {
  readonly name: string
  readonly namespace: Namespace
  /** Its data, as it is written. */
  json(): string
}

type Tell = (state: RunState, heard: Heard) => Telling

/** What is below the root, a graph or a task that speaks, begins with the first that is heard of it. */
function below(state: RunState, heard: Heard, tellIt: Tell): Telling {
  const begun = begin(state, heard.namespace)
  const telling = tellIt(begun.state, heard)
  return begun.told.length === 0 ? telling : { state: telling.state, told: [...begun.told, ...telling.told] }
}

function heardIn({ bytes }: RawFrame): Heard {
  const [name = '', ...namespace] = eventOf(bytes).split('|')
  return { name, namespace, json: () => dataOf(bytes) }
}

const BEFORE_NAME = 'event: '.length

function eventOf(frame: Buffer): string {
  return frame.toString('utf8', BEFORE_NAME, frame.indexOf(0x0a))
}

/** Announces every new namespace, from the root down. */
function begin(state: RunState, namespace: Namespace): { state: RunState; told: Told[] } {
  if (namespace.length === 0 || state.namespaces.has(namespace.join('|'))) return { state, told: [] }
  const namespaces = new Map(state.namespaces)
  const told: Told[] = []
  for (let depth = 1; depth <= namespace.length; depth++) {
    const part = namespace.slice(0, depth)
    const name = part.join('|')
    if (namespaces.has(name) || state.over.includes(name)) continue
    namespaces.set(name, part)
    told.push(lifecycle(part, { event: 'started', graph_name: nameOf(part.at(-1)!) }))
  }
  return told.length === 0 ? { state, told } : { state: { ...state, namespaces }, told }
}

/** A segment without its id. */
function nameOf(segment: string): string {
  return segment.split(':', 1)[0]!
}

function tellMessages(state: RunState, heard: Heard): Telling {
  // This process or one before it wrote it: a message or a chunk, and what is known of who says it.
  const [piece, metadata] = JSON.parse(heard.json()) as [JsonObject, JsonObject]
  const task = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns
  const isTask = typeof task === 'string' && task !== ''
  // LangGraph 1.4 names the task, later ones its graph.
  const namespace = isTask ? task.split('|') : heard.namespace
  const hasBegun = namespace.length === 0 || state.namespaces.has(namespace.join('|'))
  // The first that is heard of a task begins it, unless it is a message that is not told there.
  if (!hasBegun && !isSpoken(piece)) return { state, told: [] }
  const node = typeof metadata.langgraph_node === 'string' ? metadata.langgraph_node : 'agent'
  // A graph tells of its tools itself.
  const speaker = { namespace, node, tellsTools: !isTask }
  return below(state, { ...heard, namespace }, (begun) => {
    const { open, told } = hear(begun.open, piece, speaker)
    return { state: open === begun.open ? begun : { ...begun, open }, told }
  })
}

const tellUpdates: Tell = (state, { namespace, json }) => {
  const text = json()
  const [entry] = Object.entries(objectIn(text))
  const [node, values = null] = entry ?? []
  if (node === INTERRUPT) {
    const { asked, told } = ask(state.asked, namespace, interruptsIn(values))
    return { state: asked === state.asked ? state : { ...state, asked }, told }
  }
  // As LangGraph's server writes it: the node stands beside what it has given.
  const update = isObject(values) ? values : { value: values }
  const told = data('updates', namespace, JSON.stringify(update), node === undefined ? {} : { node })
  const { open, told: finished } = finishGiven(state.open, update)
  return { state: { ...state, open }, told: [...finished, told] }
}

/** A state that an agent tells word for word: what was still being said, the state, the questions that wait there. */
const tellState: Tell = (state, { namespace, json }) => {
  const { open, told: finished } = namespace.length === 0 ? finishTasks(state.open) : { open: state.open, told: [] }
  const text = json()
  const hasQuestions = text.includes(`"${INTERRUPT}"`)
  const given = hasQuestions ? objectIn(text)[INTERRUPT] : undefined
  const { asked, told: asking } = ask(state.asked, namespace, interruptsIn(given ?? null))
  const values = withoutInterrupts(text)
  // What only asks has no state in it.
  const isState = !(hasQuestions && values === '{}')
  const told = [...finished, isState ? data('values', namespace, values) : null, ...asking]
  return { state: { ...state, open, asked }, told }
}

/** Directly before its state: what was still being said comes before both. */
const tellEnvelope: Tell = (state, { namespace, json }) => {
  const { open, told: finished } = namespace.length === 0 ? finishTasks(state.open) : { open: state.open, told: [] }
  return { state: { ...state, open }, told: [...finished, data('checkpoints', namespace, json())] }
}

/** What a tool of a graph tells, in the words of LangChain: below the task that has called it, which only LangGraph 1.4 names. */
function tellTool(state: RunState, heard: Heard): Telling {
  const { event, toolCallId, name, input, data: piece, output, error } = objectIn(heard.json())
  const tool_call_id = typeof toolCallId === 'string' ? toolCallId : ''
  const namespace = state.calls.get(tool_call_id) ?? heard.namespace
  const about = toolEvent(String(event), { name, input, piece, output, error })
  return below(state, { ...heard, namespace }, (begun) => ({
    state: begun,
    told: about ? [data('tools', namespace, JSON.stringify({ ...about, tool_call_id }))] : []
  }))
}

function toolEvent(event: string, said: Readonly<Record<string, Json | undefined>>): JsonObject | null {
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : JSON.stringify(value ?? null))
  switch (event) {
    case 'on_tool_start':
      return { event: 'tool-started', tool_name: text(said.name ?? 'tool'), input: said.input ?? null }
    case 'on_tool_event':
      return { event: 'tool-output-delta', delta: text(said.piece) }
    case 'on_tool_end':
      return { event: 'tool-finished', output: said.output ?? null }
    case 'on_tool_error': {
      const { error } = said
      return { event: 'tool-error', message: text(isObject(error) ? error.message : error) }
    }
    default:
      return null
  }
}

function interruptsIn(values: Json): { id: string; value: Json }[] {
  const list = Array.isArray(values) ? values.filter(isObject) : []
  return list.flatMap(({ id, value = null }) => (typeof id === 'string' ? [{ id, value }] : []))
}

const tellCustom: Tell = (state, { namespace, json }) => {
  const text = json()
  const { name, payload } = text.startsWith('{') && text.includes('"name"') ? objectIn(text) : {}
  if (typeof name !== 'string') return { state, told: [data('custom', namespace, `{"payload":${text}}`)] }
  const named = payload === undefined ? `{"name":${JSON.stringify(name)},"payload":${text}}` : text
  return { state, told: [data('custom', namespace, named, { name })] }
}

/** A task that has its result, or failed, ends what was said in it, and the namespace below it. */
const tellTasks: Tell = (state, { namespace, json }) => {
  const text = json()
  const told = data('tasks', namespace, text)
  const { id, name, input = null, result, error } = objectIn(text)
  const task = [...namespace, `${name}:${id}`]
  if (result === undefined && error === undefined) return { state: withCalls(state, task, input), told: [told] }
  const { open, told: finished } = finishTask(state.open, task)
  const path = task.join('|')
  const known = state.namespaces.get(path)
  const ended = known ? [...state.ended, known] : state.ended
  const calls = new Map([...state.calls].filter(([, caller]) => caller.join('|') !== path))
  return { state: { ...state, open, ended, calls }, told: [...finished, told] }
}

/** A task that begins makes the call that it is given, or those of the message before it. */
function withCalls(state: RunState, task: Namespace, input: Json): RunState {
  const { lg_tool_call: own, messages = input } = isObject(input) ? input : {}
  const last = Array.isArray(messages) ? messages.at(-1) : null
  const given = isObject(last) && Array.isArray(last.tool_calls) ? last.tool_calls : []
  const calls = (own === undefined ? given : [own]).flatMap((call) =>
    isObject(call) && typeof call.id === 'string' ? [[call.id, task] as const] : []
  )
  return calls.length === 0 ? state : { ...state, calls: new Map([...state.calls, ...calls]) }
}

function objectIn(json: string): JsonObject {
  const value: unknown = JSON.parse(json)
  return isObject(value) ? value : {}
}

function failureIn(frame: RawFrame): string {
  const { error, message } = objectIn(dataOf(frame.bytes))
  return String(message ?? error ?? 'The run failed')
}
