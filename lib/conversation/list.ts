// How a long list is kept: as parts of its JSON, which its next version shares as far as they have not changed. Only texts are compared
// and joined again, so that what is read is what was written, byte for byte.
import { type Body, inRanges, type ListPart, type PartRange } from './state.ts'

/** Lists are divided from this length on: below, one body is cheaper than several. */
const LIST_LENGTH_MIN = 4096
/** A part has as many elements as make this length, or this part of what is new. */
const PART_LENGTH_MIN = 512
const NEW_PARTS_MAX = 64
/** A list in more ranges than this is written anew: its head must stay short. */
const RANGES_MAX = 64

/** A new version of a list: parts it shares with the one before, and new ones between them. */
export interface DividedList<Part extends ListPart = ListPart> {
  readonly before: readonly Part[]
  readonly added: readonly string[]
  readonly after: readonly Part[]
}

/** Divides the text of a list, after a version of these parts; null: it is no list, or a short one, and stays one body. */
export function divided<Part extends ListPart>(
  { type, data }: Omit<Body, 'name'>,
  known: readonly Part[],
  lengthMin = LIST_LENGTH_MIN
): DividedList<Part> | null {
  if (type !== 'json' || data.length < lengthMin || !data.startsWith('[') || !data.endsWith(']')) return null
  const text = data.slice(1, -1)
  const list = shared(text, known)
  return rangesOf(list, 0).length > RANGES_MAX ? { before: [], added: inParts(text), after: [] } : list
}

/** What a list shares with the one before at its beginning, which may have gone on before it, and at its end. */
function shared<Part extends ListPart>(text: string, known: readonly Part[]): DividedList<Part> {
  // `startsWith` compares character by character, which takes ten times as long.
  const isNext = ({ data }: ListPart, at: number) =>
    text.slice(at, at + data.length) === data && (at + data.length === text.length || text[at + data.length] === ',')
  const before: Part[] = []
  let at = 0
  let next = Math.max(
    0,
    known.findIndex((part) => isNext(part, 0))
  )
  for (; next < known.length && at < text.length && isNext(known[next]!, at); next++) {
    before.push(known[next]!)
    at += known[next]!.data.length + 1
  }
  if (at > text.length) return { before, added: [], after: [] }
  const after: Part[] = []
  let end = text.length
  for (let last = known.length - 1; last >= next; last--) {
    const from = end - known[last]!.data.length
    if (from < at || text.slice(from, end) !== known[last]!.data || (from > at && text[from - 1] !== ',')) break
    after.unshift(known[last]!)
    end = from - 1
    if (end < at) break
  }
  return { before, added: end < at ? [] : inParts(text.slice(at, end)), after }
}

/** Ranges of a list whose new parts are numbered from here on. */
export function rangesOf({ before, added, after }: DividedList, from: number): PartRange[] {
  return inRanges([
    ...before.map(({ no }) => no),
    ...added.map((_, index) => from + index),
    ...after.map(({ no }) => no)
  ])
}

/** Elements of a list, several in a part where they are small. */
function inParts(text: string): string[] {
  const length = Math.max(PART_LENGTH_MIN, text.length / NEW_PARTS_MAX)
  const parts: string[] = []
  let from = 0
  for (const comma of commasIn(text)) {
    if (comma - from < length) continue
    parts.push(text.slice(from, comma))
    from = comma + 1
  }
  return [...parts, text.slice(from)]
}

/** The members of an object's JSON, each as its key, in quotes, and its value. null: it is not written as `JSON.stringify` writes it. */
export function membersIn(text: string): [key: string, value: string][] | null {
  if (!text.startsWith('{') || !text.endsWith('}')) return null
  const members: [string, string][] = []
  for (const member of elementsIn(text.slice(1, -1))) {
    const end = member[0] === '"' ? endOfString(member, 0) : member.length
    if (member[end + 1] !== ':') return null
    members.push([member.slice(0, end + 1), member.slice(end + 2)])
  }
  return members
}

/** The elements of a list's JSON without its brackets, as texts. */
export function elementsIn(text: string): string[] {
  if (text === '') return []
  const elements: string[] = []
  let from = 0
  for (const comma of commasIn(text)) {
    elements.push(text.slice(from, comma))
    from = comma + 1
  }
  return [...elements, text.slice(from)]
}

/** The commas between elements, not those within one. */
function* commasIn(text: string): Generator<number> {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '"') at = endOfString(text, at)
    else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') depth--
    else if (character === ',' && depth === 0) yield at
  }
}

function endOfString(text: string, from: number): number {
  for (let end = text.indexOf('"', from + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0
    while (text[end - 1 - escapes] === '\\') escapes++
    if (escapes % 2 === 0) return end
  }
  return text.length
}
