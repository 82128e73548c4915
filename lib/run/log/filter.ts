// Which frames of a run a joiner wants. The log is the same for everyone; joiners that asked for the same modes share
// one filter, so that they can share bytes as well.
import { bit, Kind } from './frame.ts'

/** Modes a client may name, and the kinds each one shows. `messages` shows accumulated messages, `messages-tuple` deltas. */
const KINDS_OF_MODE: Readonly<Record<string, readonly Kind[]>> = {
  values: [Kind.values, Kind.state],
  'messages-tuple': [Kind.messages],
  messages: [Kind.messages],
  updates: [Kind.updates],
  custom: [Kind.custom],
  tasks: [Kind.tasks],
  checkpoints: [Kind.checkpoints],
  debug: [Kind.debug],
  events: [Kind.events],
  tools: [Kind.tools]
}

/** Every joiner sees these. */
const ALWAYS = bit(Kind.metadata) | bit(Kind.error) | bit(Kind.feedback)

export interface Filter {
  /** One bit per kind: passed on as it stands in the log. */
  readonly mask: number
  /** Deltas are accumulated into whole messages for this joiner (mode `messages`). */
  readonly accumulate: boolean
}

function bitsOf(mode: string): number {
  return (KINDS_OF_MODE[mode] ?? []).reduce<number>((sum, kind) => sum | bit(kind), 0)
}

const shared = new Map<string, Filter>()

/** The filter for a list of modes. Unknown modes are skipped; an empty list means values. Equal modes give the same object. */
export function filterOf(modes: readonly string[]): Filter {
  const known = modes.filter((mode) => Object.hasOwn(KINDS_OF_MODE, mode))
  const wanted = known.length ? known : ['values']
  const accumulate = wanted.includes('messages')
  const passed = accumulate ? wanted.filter((mode) => mode !== 'messages') : wanted
  const mask = passed.reduce((sum, mode) => sum | bitsOf(mode), ALWAYS)
  const key = `${mask}/${accumulate}`
  const filter = shared.get(key) ?? { mask, accumulate }
  shared.set(key, filter)
  return filter
}

/** The modes that a filter passes on, by name. */
export function modesOf({ mask, accumulate }: Filter): string[] {
  const passed = Object.keys(KINDS_OF_MODE).filter(
    (mode) => mode !== 'messages' && (bitsOf(mode) & mask) === bitsOf(mode)
  )
  return accumulate ? ['messages', ...passed] : passed
}

/** Kinds that are logged only when the creator of the run asked for them: they cost much and nobody reads them otherwise. */
export function extraKinds(modes: readonly string[]): number {
  const extras = ['updates', 'tasks', 'checkpoints', 'debug']
  return modes.filter((mode) => extras.includes(mode)).reduce((sum, mode) => sum | bitsOf(mode), 0)
}
