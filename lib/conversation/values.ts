// A state as a run has shown it, by the names of the bodies it consists of: those of the checkpoint that the run started from, and the
// run's own, each stored once. Only texts are compared and joined again, so that what is read is what was shown, byte for byte.
import type { Json } from '../base/types.ts'
import { divided, elementsIn, membersIn } from './list.ts'
import {
  bodiesByName,
  type Body,
  bodyNames,
  channelOf,
  type ChannelVersion,
  type ListPart,
  partName,
  partNumber,
  type PartRange,
  type StoredGraphCheckpoint
} from './state.ts'

/** Bodies: one of the checkpoint by its name, or parts of a list of its channel. Channel 0: of the run's own. */
type BodyRef = string | readonly [channel: string | 0, ...ranges: PartRange[]]

/** A member of the state: its key, as JSON, and its text; or the pieces of a list's text, or of any other value's. */
type Member =
  | readonly [key: string, text: string]
  | readonly [key: string, kind: typeof LIST | typeof VALUE, ...BodyRef[]]

/** Key of what is asked of the user. */
const QUESTIONS = '"__interrupt__"'
/** Of all of a text that is no object, or not as `JSON.stringify` writes one. */
const NO_KEY = ''
const VALUE = 0
const LIST = 1

/** A state that was shown. */
export interface NamedValues {
  /** Its event: `values`, with the namespace of the subgraph. */
  readonly event: string
  readonly members: readonly Member[]
}

/** Shorter values stand in the frame itself. */
const VALUE_LENGTH_MIN = 256

/** A body, as the state shows it. */
interface Part extends ListPart {
  /** Its name, of the checkpoint; null: it is one of the run's own. */
  readonly name: string | null
}

type Known = { readonly isList: boolean; readonly parts: readonly Part[] }

interface Named {
  readonly values: NamedValues
  /** Bodies of the run's own that nothing has named before. */
  readonly added: readonly Body[]
  /** The JSON again. */
  json(): string
}

/** Names the states of one run, in the order in which it shows them. */
export class ValuesNamer {
  #next: number
  #base: StoredGraphCheckpoint | null = null
  /** What was shown last, by event and key. */
  readonly #known = new Map<string, Map<string, Known>>()

  /** @param first number of the run's next body */
  constructor(first: number) {
    this.#next = first
  }

  /** The run starts from this checkpoint, which stays when the run is taken back. */
  open(base: StoredGraphCheckpoint): void {
    this.#base = base
  }

  name(event: string, json: string): Named {
    const texts = membersIn(json) ?? [[NO_KEY, json] as const]
    const known = this.#known.get(event) ?? new Map<string, Known>()
    this.#known.set(event, known)
    const added: Body[] = []
    const shown = texts.map(([key, text]): readonly [string, string | Known] => {
      // Questions are read without bodies.
      if (text.length < VALUE_LENGTH_MIN || key === QUESTIONS) return [flat(key), flat(text)]
      const value = this.#valueOf(text, known.get(key) ?? this.#startOf(key), added)
      known.set(flat(key), value)
      return [flat(key), value]
    })
    const members = shown.map(
      ([key, value]): Member =>
        typeof value === 'string' ? [key, value] : [key, value.isList ? LIST : VALUE, ...refsOf(value.parts)]
    )
    return {
      values: { event, members },
      added,
      json: () => objectText(shown.map(([key, value]) => [key, typeof value === 'string' ? value : textOf(value)]))
    }
  }

  #valueOf(text: string, before: Known | null, added: Body[]): Known {
    const list = divided({ type: 'json', data: text }, before?.isList ? before.parts : [], 0)
    if (list)
      return { isList: true, parts: [...list.before, ...list.added.map((one) => this.#own(one, added)), ...list.after] }
    const [only] = before?.parts ?? []
    return { isList: false, parts: [!before?.isList && only?.data === text ? only : this.#own(text, added)] }
  }

  #own(text: string, added: Body[]): Part {
    const part = { no: this.#next++, data: flat(text), name: null }
    added.push({ name: partName('', part.no), type: 'json', data: part.data })
    return part
  }

  /** What a member is compared with first: that of the graph itself, or of the checkpoint. */
  #startOf(key: string): Known | null {
    return this.#known.get('values')?.get(key) ?? (this.#base && baseOf(this.#base, key))
  }
}

function baseOf({ names, values }: StoredGraphCheckpoint, key: string): Known | null {
  // Keys are JSON texts.
  const channel = key === NO_KEY ? '' : (JSON.parse(key) as string)
  const version = names.find((one) => channelOf(one) === channel)
  if (version === undefined) return null
  const bodies = bodiesByName(values)
  const isList = typeof version !== 'string' || (bodies.get(version)?.data.startsWith('[') ?? false)
  const parts = bodyNames(version).flatMap((name, no): Part[] => {
    const data = shownText(bodies.get(name), isList, typeof version === 'string')
    return data === null || data === '' ? [] : [{ no, name, data }]
  })
  return { isList, parts }
}

/** A slice of a long text would keep all of it in memory. */
function flat(text: string): string {
  return Buffer.from(text).toString()
}

function refsOf(parts: readonly Part[]): BodyRef[] {
  const pieces: (string | [string | 0, ...[number, number][]])[] = []
  for (const { no, name } of parts) {
    const [channel, at] = name === null ? ([0, no] as const) : partIn(name)
    const piece = pieces.at(-1)
    const range = typeof piece === 'object' && piece[0] === channel ? piece.at(-1) : undefined
    if (channel === null) pieces.push(name!)
    else if (typeof piece !== 'object' || piece[0] !== channel) pieces.push([channel, [at, at]])
    else if (Array.isArray(range) && range[1] + 1 === at) range[1] = at
    else piece.push([at, at])
  }
  return pieces
}

/** The channel of a part and its number; null: it is a whole body. */
function partIn(name: string): readonly [string | null, number] {
  const [, channel, digits] = /^(.*)#(\d+)$/s.exec(name) ?? []
  return channel !== undefined && partName(channel, Number(digits)) === name ? [channel, partNumber(name)] : [null, 0]
}

function textOf({ isList, parts }: Known): string {
  const text = parts.map(({ data }) => data).join(',')
  return isList ? `[${text}]` : text
}

function objectText(members: readonly (readonly [string, string])[]): string {
  const [only] = members
  if (only?.[0] === NO_KEY) return only[1]
  return `{${members.map(([key, text]) => `${key}:${text}`).join(',')}}`
}

// ------------------------------------------------------------------------------------------------------- reading

/** It only asks its user. */
export function isQuestion({ members }: NamedValues): boolean {
  return members.length === 1 && members[0]![0] === QUESTIONS
}

/** What it asks its user; null: nothing. */
export function questionsIn({ members }: NamedValues): Json | null {
  const asked = members.find(([key]) => key === QUESTIONS)
  if (!asked || typeof asked[1] !== 'string') return null
  // A member's text is JSON.
  return JSON.parse(asked[1]) as Json
}

/** The bodies that a state names, of the run's own and of the checkpoint. */
export function versionsIn({ members }: NamedValues): {
  readonly own: ChannelVersion[]
  readonly base: ChannelVersion[]
} {
  const [own, base]: ChannelVersion[][] = [[], []]
  for (const piece of members.flatMap(([, , ...pieces]) => pieces as readonly BodyRef[]))
    if (typeof piece === 'string') base!.push(piece)
    else (piece[0] === 0 ? own : base)!.push(versionOf(piece))
  return { own: own!, base: base! }
}

function versionOf([channel, ...parts]: Exclude<BodyRef, string>): ChannelVersion {
  return { name: `${channel === 0 ? '' : channel} `, parts }
}

/** Bodies by name, as far as they were found, and how those of a checkpoint are shown, which is made once. */
export class ShownBodies {
  readonly own = new Map<string, Body>()
  readonly base = new Map<string, Body>()
  readonly #shown = new Map<string, string | null>()

  /** The JSON of a state, the same bytes as it was shown; null: a body of it is gone. */
  json({ members }: NamedValues): string | null {
    const texts: [string, string][] = []
    for (const [key, kind, ...pieces] of members) {
      const text = typeof kind === 'string' ? kind : this.#text(kind === LIST, pieces as readonly BodyRef[])
      if (text === null) return null
      texts.push([key, text])
    }
    return objectText(texts)
  }

  #text(isList: boolean, pieces: readonly BodyRef[]): string | null {
    const texts: string[] = []
    for (const piece of pieces)
      for (const name of bodyNames(typeof piece === 'string' ? piece : versionOf(piece))) {
        const isOwn = typeof piece !== 'string' && piece[0] === 0
        const text = isOwn ? (this.own.get(name)?.data ?? null) : this.#ofBase(name, isList, typeof piece === 'string')
        if (text === null) return null
        texts.push(text)
      }
    return isList ? `[${texts.join(',')}]` : texts.join('')
  }

  #ofBase(name: string, isList: boolean, isWhole: boolean): string | null {
    const key = `${isList} ${name}`
    const known = this.#shown.get(key)
    if (known !== undefined) return known
    const text = shownText(this.base.get(name), isList, isWhole)
    this.#shown.set(key, text)
    return text
  }
}

/** A body as a state shows it: elements of a list without its brackets. null: it cannot be shown without the graph. */
function shownText(body: Body | undefined, isList: boolean, isWhole: boolean): string | null {
  if (body?.type !== 'json') return null
  const { data } = body
  if (!isList) return shownValue(data)
  if (!isWhole) return elementsIn(data).map(shownValue).join(',')
  return data.startsWith('[') && data.endsWith(']') ? elementsIn(data.slice(1, -1)).map(shownValue).join(',') : null
}

/** How LangChain's serializer begins a message: whom to construct of the fields that follow. */
const CONSTRUCTED = /^{"lc":1,"type":"constructor","id":\["langchain_core","messages","(\w+)"\],"kwargs":(?={")/

/** How a message of a graph in another language is kept: opaque, and as it is shown. */
const OPAQUE = /^{"id":(?:null|"(?:[^"\\]|\\.)*"),"type":"\w+","data":"[A-Za-z0-9+/=]*","shown":(?={)/

/**
 * A message as its fields and its type, anything else as it is. Only what comes out as it was shown is named, so that a text of another
 * form does no harm; and nothing is parsed, because a conversation has thousands.
 */
function shownValue(text: string): string {
  const [opaque] = OPAQUE.exec(text) ?? []
  if (opaque !== undefined && text.endsWith('}}')) return text.slice(opaque.length, -1)
  const [start, name] = CONSTRUCTED.exec(text) ?? []
  const type = name === undefined ? undefined : MESSAGE_TYPES[name]
  return start === undefined || type === undefined || !text.endsWith('}}')
    ? text
    : `${text.slice(start.length, -2)},"type":"${type}"}`
}

const MESSAGE_TYPES: Readonly<Record<string, string>> = {
  HumanMessage: 'human',
  AIMessage: 'ai',
  AIMessageChunk: 'ai',
  ToolMessage: 'tool',
  SystemMessage: 'system',
  FunctionMessage: 'function',
  RemoveMessage: 'remove'
}
