// Which frames of a run a joiner wants. The log is the same for everyone; joiners that asked for the same modes share
// one filter, so that they can share bytes as well.

/** Kinds of frames in a log. The numbers are stored: never change one. */
export const Kind = {
  metadata: 0,
  /** A reference to a checkpoint, or to the bodies of a state, rendered when somebody reads it. */
  values: 1,
  messages: 2,
  updates: 3,
  custom: 4,
  tasks: 5,
  checkpoints: 6,
  debug: 7,
  error: 8,
  /** Describes the parts that follow, which together are the whole of the cut frame before it. No filter passes it or them. */
  whole: 9,
  part: 10,
  /** Events of LangChain, of a graph. */
  events: 11,
  /** What tools tell while they work, of a graph. */
  tools: 12,
  /** Values word for word, as earlier versions have logged those of agents that show them themselves. */
  state: 13,
  /** Names the checkpoint of the values frame that follows. No mode passes it. */
  envelope: 14,
  /** Where feedback on the run is put, by the keys that its creator has named. */
  feedback: 15,
  /** What a graph's stream transformers make. No mode passes it. */
  extension: 16
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
const ALWAYS = bit(Kind.metadata) | bit(Kind.error) | bit(Kind.feedback)

export interface Filter {
  /** One bit per kind: passed on as it stands in the log. */
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
