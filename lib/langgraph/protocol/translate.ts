// Translates the log of a run to protocol v2, frame by frame. The result depends only on earlier frames: state in,
// events and state out, so that every reader gets the same events, live, late, or on another process.
import type { RawFrame } from '../../run/log/segment.ts'
import { graphOf } from '../../run/run-kwargs.ts'
import { dataOf, stopError, Kind } from '../../run/log/frame.ts'
import { INTERRUPTS, interruptsIn } from '../../conversation/interrupts.ts'
import { readTuple } from '../../conversation/wire.ts'
import { isQuestion, type NamedValues, questionsIn } from '../../conversation/values.ts'
import { aboutIn, checkpointIn, namedIn } from '../../run/log/values-frame.ts'
import { objectOr } from '../../base/json.ts'
import { isInFlight, isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import type { Step, Translation } from '../../protocols/feed.ts'
import { completeEnded, endOf, lifecycle, type Namespaces, startNamespaces } from './namespaces.ts'
import {
  type Channel,
  eventAt,
  FRAMES_MAX,
  type Namespace,
  PARTS_MAX,
  type ProtocolEvent,
  type EventBody
} from './event.ts'
import {
  finishAll,
  finishCut,
  finishContained,
  finishTask,
  finishTasks,
  suspendAll,
  translateMessage,
  isMessageEvent,
  type OpenMessages
} from './messages.ts'

/** Translation state. Immutable. */
export interface RunState extends Namespaces {
  readonly open: OpenMessages
  /** Ids of the interrupts already sent. */
  readonly requested: ReadonlySet<string>
  /** Task by the id of the tool call it makes. */
  readonly calls: ReadonlyMap<string, Namespace>
  /** Message of the error frame. */
  readonly failure: string | null
}

const INITIAL_STATE: RunState = {
  open: new Map(),
  requested: new Set(),
  namespaces: new Map(),
  ended: [],
  completed: [],
  calls: new Map(),
  failure: null
}

/** Events of one frame. null holds the place of an event that nobody asked for, so that seq does not depend on filters. */
interface TranslateResult {
  readonly state: RunState
  readonly emitted: readonly (EventBody | null)[]
}

function translate(run: Run, state: RunState, frame: RawFrame, values: string | null): Step<RunState, ProtocolEvent> {
  const before = frame.kind === Kind.tasks || frame.kind === Kind.error ? { state, emitted: [] } : completeEnded(state)
  const result = translateFrame(run, before.state, frame, values)
  // Completion events precede the frame's own. Over PARTS_MAX the oldest are dropped.
  const emitted = [...before.emitted, ...result.emitted].slice(-PARTS_MAX)
  const { epoch, n } = frame
  return {
    state: result.state,
    events: emitted.flatMap((one, part) => (one ? [eventAt({ run, epoch, n }, part, one)] : []))
  }
}

function translateFrame(run: Run, state: RunState, frame: RawFrame, values: string | null): TranslateResult {
  switch (frame.kind) {
    case Kind.metadata:
      return translateStart(run, state)
    case Kind.values: {
      const named = namedIn(frame.bytes)
      return named ? translateNamed(state, named, values) : translateValues(state, frame, values)
    }
    case Kind.messages:
      return translateMessages(state, namespacedFrame(frame))
    case Kind.updates:
      return inNamespace(state, namespacedFrame(frame), translateUpdates)
    case Kind.custom:
    case Kind.extension:
      return inNamespace(state, namespacedFrame(frame), translateCustom)
    case Kind.tasks:
      return inNamespace(state, namespacedFrame(frame), translateTasks)
    case Kind.state:
      return inNamespace(state, namespacedFrame(frame), translateState)
    case Kind.envelope:
      return inNamespace(state, namespacedFrame(frame), translateEnvelope)
    case Kind.tools:
      return translateTool(state, namespacedFrame(frame))
    case Kind.error:
      return { state: { ...state, failure: failureIn(frame) }, emitted: [] }
    default:
      return { state, emitted: [] }
  }
}

const ROOT: Namespace = []

/** Start of an attempt, which goes on with messages cut by a crash, or sends them under other ids: then they finish without a reason. */
function translateStart(run: Run, state: RunState): TranslateResult {
  const running = lifecycle(ROOT, { event: 'running', graph_name: graphName(run) })
  return { state: { ...state, open: suspendAll(state.open) }, emitted: [running] }
}

/** As the protocol names the graph of a run. */
export function graphName(run: Run): string {
  return graphOf(run) ?? run.assistant_id ?? 'lead_agent'
}

function data(channel: Channel, namespace: Namespace, json: string, about: Partial<EventBody> = {}): EventBody {
  return { method: channel, channel, namespace, json, ...about }
}

// ------------------------------------------------------------------------------------------------ the end of a run

/**
 * Events after the last frame: one terminal event for each open namespace, then exactly one for the root. That one has the last seq of
 * the run, so that it is the same for readers who come when the frames are gone.
 */
function translateEnd(run: Run, state: RunState, at: Pick<RawFrame, 'epoch' | 'n'>): readonly ProtocolEvent[] {
  const event = statusOf(run)
  const isCut = run.status === 'interrupted'
  const finished = event === 'completed' ? finishAll(state.open) : isCut ? finishCut(state.open) : null
  const done = event === 'failed' ? { state, emitted: [] } : completeEnded(state)
  const open = [...done.state.namespaces.values()].reverse()
  const descendants = [...done.emitted, ...open.map((namespace) => lifecycle(namespace, endOf(namespace, event)))]
  const error = event === 'failed' ? (state.failure ?? run.error ?? stopError(run)?.message ?? 'The run failed') : null
  const root = lifecycle(ROOT, { event, graph_name: graphName(run), ...(error !== null && { error }) })
  const emitted = [...(finished?.emitted ?? []), ...descendants]
  const { epoch } = at
  // No frame follows, so these may take the numbers of several.
  const place = (i: number) => ({ run, epoch, n: at.n + Math.floor(i / PARTS_MAX) })
  const ends = emitted.map((one, i) => eventAt(place(i), i % PARTS_MAX, one))
  return [...ends, eventAt({ run, epoch, n: FRAMES_MAX - 1 }, PARTS_MAX - 1, root)]
}

/** A run's status in the protocol's terms. */
export function statusOf(run: Run): 'running' | 'completed' | 'failed' | 'interrupted' {
  const { status } = run
  if (isInFlight({ status })) return 'running'
  if (status === 'success') return 'completed'
  return status === 'interrupted' && stopError(run) === null ? 'interrupted' : 'failed'
}

// ------------------------------------------------------------------------------------------------ frames

/** Open messages of tasks finish; then the checkpoint, its values, and its interrupts. */
function translateValues(state: RunState, frame: RawFrame, values: string | null): TranslateResult {
  const { open, emitted: finished } = finishTasks(state.open)
  const { interrupts = [], ...checkpoint } = aboutIn(frame.bytes) ?? {}
  const { requested, emitted: requests } = requestInput(state.requested, ROOT, interrupts)
  const isKnown = 'step' in checkpoint
  const parent = isKnown && checkpoint.parent_id !== null ? { parent_id: checkpoint.parent_id } : {}
  const about = isKnown && {
    id: checkpointIn(frame.bytes),
    ...parent,
    step: checkpoint.step,
    source: checkpoint.source
  }
  const emitted = [
    ...finished,
    about ? data('checkpoints', ROOT, JSON.stringify(about)) : null,
    values === null ? null : data('values', ROOT, withoutInterrupts(values)),
    ...requests
  ]
  return { state: { ...state, open, requested }, emitted }
}

/** Interrupts have events of their own. */
function withoutInterrupts(json: string): string {
  if (!json.includes(`"${INTERRUPTS}"`)) return json
  const values: unknown = JSON.parse(json)
  if (!isObject(values) || !(INTERRUPTS in values)) return json
  const { [INTERRUPTS]: _, ...rest } = values
  return JSON.stringify(rest)
}

/** Each interrupt is sent once, however often the log repeats it. */
function requestInput(
  before: ReadonlySet<string>,
  namespace: Namespace,
  interrupts: readonly { readonly id: string; readonly value: Json }[]
): { requested: ReadonlySet<string>; emitted: EventBody[] } {
  const fresh = interrupts.filter(({ id }) => !before.has(id))
  if (fresh.length === 0) return { requested: before, emitted: [] }
  const emitted = fresh.map(({ id, value }) =>
    data('input', namespace, JSON.stringify({ interrupt_id: id, payload: value ?? null }), {
      method: 'input.requested'
    })
  )
  return { requested: new Set([...before, ...fresh.map(({ id }) => id)]), emitted }
}

/** A frame with its event name split: `updates|a:1|b:2`. */
interface NamespacedFrame {
  readonly name: string
  readonly namespace: Namespace
  /** Its data as stored, parsed by who needs it. */
  json(): string
}

type Translate = (state: RunState, frame: NamespacedFrame) => TranslateResult

/** A namespace starts with its first event. */
function inNamespace(state: RunState, frame: NamespacedFrame, translateOne: Translate): TranslateResult {
  const started = startNamespaces(state, frame.namespace)
  const result = translateOne(started.state, frame)
  return started.emitted.length === 0
    ? result
    : { state: result.state, emitted: [...started.emitted, ...result.emitted] }
}

function namespacedFrame({ bytes }: RawFrame): NamespacedFrame {
  return { ...namespaceIn(eventOf(bytes)), json: () => dataOf(bytes) }
}

function namespaceIn(event: string): Pick<NamespacedFrame, 'name' | 'namespace'> {
  const [name = '', ...namespace] = event.split('|')
  return { name, namespace }
}

const BEFORE_NAME = 'event: '.length

function eventOf(frame: Buffer): string {
  return frame.toString('utf8', BEFORE_NAME, frame.indexOf(0x0a))
}

function translateMessages(state: RunState, frame: NamespacedFrame): TranslateResult {
  const tuple = readTuple(frame.json())
  if (!tuple) return { state, emitted: [] }
  const [piece, metadata] = tuple
  const task = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns
  const isTask = typeof task === 'string' && task !== ''
  // LangGraph 1.4 names the task, later ones its graph.
  const namespace = isTask ? task.split('|') : frame.namespace
  const hasBegun = namespace.length === 0 || state.namespaces.has(namespace.join('|'))
  // A message without an event does not start its namespace.
  if (!hasBegun && !isMessageEvent(piece)) return { state, emitted: [] }
  const node = typeof metadata.langgraph_node === 'string' ? metadata.langgraph_node : 'agent'
  // Graphs emit their own tool events.
  const source = { namespace, node, derivesTools: !isTask }
  return inNamespace(state, { ...frame, namespace }, (started) => {
    const { open, emitted } = translateMessage(started.open, piece, source)
    return { state: open === started.open ? started : { ...started, open }, emitted }
  })
}

const translateUpdates: Translate = (state, { namespace, json }) => {
  const text = json()
  const [entry] = Object.entries(objectIn(text))
  const [node, values = null] = entry ?? []
  if (node === INTERRUPTS) {
    const { requested, emitted } = requestInput(state.requested, namespace, interruptsIn(values))
    return { state: requested === state.requested ? state : { ...state, requested }, emitted }
  }
  // LangGraph's server puts the node beside its update.
  const update = isObject(values) ? values : { value: values }
  const emitted = data('updates', namespace, JSON.stringify(update), node === undefined ? {} : { node })
  const { open, emitted: finished } = finishContained(state.open, update)
  return { state: { ...state, open }, emitted: [...finished, emitted] }
}

/** Values shown by the agent itself: open messages finish, then values and interrupts. */
function translateNamed(state: RunState, named: NamedValues, values: string | null): TranslateResult {
  const interrupts = interruptsIn(questionsIn(named) ?? null)
  return inNamespace(state, { ...namespaceIn(named.event), json: () => '' }, (started, { namespace }) =>
    translateShown(started, namespace, isQuestion(named) ? null : values, interrupts)
  )
}

/** Full values in the frame, as earlier versions logged them. */
const translateState: Translate = (state, { namespace, json }) => {
  const text = json()
  const hasQuestions = text.includes(`"${INTERRUPTS}"`)
  const given = hasQuestions ? objectIn(text)[INTERRUPTS] : undefined
  // A frame with interrupts alone has no state.
  const isState = !(hasQuestions && withoutInterrupts(text) === '{}')
  return translateShown(state, namespace, isState ? text : null, interruptsIn(given ?? null))
}

function translateShown(
  state: RunState,
  namespace: Namespace,
  values: string | null,
  interrupts: readonly { readonly id: string; readonly value: Json }[]
): TranslateResult {
  const { open, emitted: finished } =
    namespace.length === 0 ? finishTasks(state.open) : { open: state.open, emitted: [] }
  const { requested, emitted: requests } = requestInput(state.requested, namespace, interrupts)
  const shown = values === null ? null : data('values', namespace, withoutInterrupts(values))
  return { state: { ...state, open, requested }, emitted: [...finished, shown, ...requests] }
}

/** The checkpoint directly before its state: open messages finish before both. */
const translateEnvelope: Translate = (state, { namespace, json }) => {
  const { open, emitted: finished } =
    namespace.length === 0 ? finishTasks(state.open) : { open: state.open, emitted: [] }
  return { state: { ...state, open }, emitted: [...finished, data('checkpoints', namespace, json())] }
}

/** Tool callbacks of LangChain, in the namespace of the calling task, which only LangGraph 1.4 names. */
function translateTool(state: RunState, frame: NamespacedFrame): TranslateResult {
  const { event, toolCallId, name, input, data: piece, output, error } = objectIn(frame.json())
  const tool_call_id = typeof toolCallId === 'string' ? toolCallId : ''
  const namespace = state.calls.get(tool_call_id) ?? frame.namespace
  const about = toolEvent(String(event), { name, input, piece, output, error })
  return inNamespace(state, { ...frame, namespace }, (started) => ({
    state: started,
    emitted: about ? [data('tools', namespace, JSON.stringify({ ...about, tool_call_id }))] : []
  }))
}

function toolEvent(event: string, fields: Readonly<Record<string, Json | undefined>>): JsonObject | null {
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : JSON.stringify(value ?? null))
  switch (event) {
    case 'on_tool_start':
      return { event: 'tool-started', tool_name: text(fields.name ?? 'tool'), input: fields.input ?? null }
    case 'on_tool_event':
      return { event: 'tool-output-delta', delta: text(fields.piece) }
    case 'on_tool_end':
      return { event: 'tool-finished', output: fields.output ?? null }
    case 'on_tool_error': {
      const { error } = fields
      return { event: 'tool-error', message: text(isObject(error) ? error.message : error) }
    }
    default:
      return null
  }
}

const translateCustom: Translate = (state, { namespace, json }) => {
  const text = json()
  const { name, payload } = text.startsWith('{') && text.includes('"name"') ? objectIn(text) : {}
  if (typeof name !== 'string') return { state, emitted: [data('custom', namespace, `{"payload":${text}}`)] }
  const named = payload === undefined ? `{"name":${JSON.stringify(name)},"payload":${text}}` : text
  return { state, emitted: [data('custom', namespace, named, { name })] }
}

/** The result of a task ends its messages and its namespace. */
const translateTasks: Translate = (state, { namespace, json }) => {
  const text = json()
  const emitted = data('tasks', namespace, text)
  const { id, name, input = null, result, error } = objectIn(text)
  const task = [...namespace, `${name}:${id}`]
  if (result === undefined && error === undefined) return { state: withCalls(state, task, input), emitted: [emitted] }
  const { open, emitted: finished } = finishTask(state.open, task)
  const path = task.join('|')
  const known = state.namespaces.get(path)
  const ended = known ? [...state.ended, known] : state.ended
  const calls = new Map([...state.calls].filter(([, caller]) => caller.join('|') !== path))
  return { state: { ...state, open, ended, calls }, emitted: [...finished, emitted] }
}

/** A starting task makes the call it is given, alone or in a list, or those of the last message in its input. */
function withCalls(state: RunState, task: Namespace, input: Json): RunState {
  // As LangGraph.js and LangGraph for Python name it.
  const { lg_tool_call, tool_call, messages = input } = objectOr(input)
  const own = [lg_tool_call, tool_call].find((one) => isObject(one))
  const last = Array.isArray(messages) ? messages.at(-1) : null
  const given = isObject(last) && Array.isArray(last.tool_calls) ? last.tool_calls : []
  const sent = Array.isArray(input) ? input.filter((one) => isObject(one) && one.type === 'tool_call') : []
  const calls = (own === undefined ? [...given, ...sent] : [own]).flatMap((call) =>
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

export const TRANSLATION: Translation<RunState, ProtocolEvent> = {
  initial: INITIAL_STATE,
  frame: translate,
  end: translateEnd
}
