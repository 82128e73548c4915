// What a joiner wants to see of a run. The log always holds the same frames; a filter only picks, and is shared by all joiners
// that asked for the same, so that they can share bytes as well.

/** Kinds of frames in a log. The numbers are stored: never change one. */
export const Kind = {
  metadata: 0,
  /** A reference to a checkpoint, rendered when somebody reads it. */
  values: 1,
  messages: 2,
  updates: 3,
  custom: 4,
  tasks: 5,
  checkpoints: 6,
  debug: 7,
  error: 8,
  /** Tells about the parts behind it, which are the whole of the cut frame before it. No filter takes it, nor them. */
  whole: 9,
  part: 10,
  /** Events of LangChain, of a graph. */
  events: 11,
  /** What tools tell while they work, of a graph. */
  tools: 12,
  /** Values word for word, of an agent that keeps its states itself. */
  state: 13,
  /** Which checkpoint the values behind it are of. No filter of modes takes it. */
  envelope: 14
} as const
export type Kind = (typeof Kind)[keyof typeof Kind]

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
const ALWAYS = bit(Kind.metadata) | bit(Kind.error)

export interface Filter {
  /** One bit a kind: what is passed on as it stands in the log. */
  readonly mask: number
  /** Deltas are accumulated into whole messages for this joiner (mode `messages`). */
  readonly accumulate: boolean
}

export function bit(kind: Kind): number {
  return 1 << kind
}

function bitsOf(mode: string): number {
  return (KINDS_OF_MODE[mode] ?? []).reduce<number>((sum, kind) => sum | bit(kind), 0)
}

const shared = new Map<string, Filter>()

/** The filter of a list of modes; unknown ones are skipped, nothing left means values. The same modes give the same object. */
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
