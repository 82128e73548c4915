// Parts of an answer that its reader opens: `<details>` with its `<summary>`, as models write them between blocks of Markdown. Such a tag
// stands by itself, whatever is around it: what it opens or closes is Markdown too.

/** What opens a block of code, and what ends it. */
export const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})/
export const fenceEnd = (fence: string): RegExp => new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`)

/** As blocks of HTML; no other block begins so. */
const OPEN = '<details>'
const OPEN_AT_ONCE = '<details open>'
const CLOSE = '</details>'
export const SUMMARY = '<div class="summary">'

interface Piece {
  readonly kind: 'text' | 'tag' | 'summary'
  /** Markdown, or the tag as a block. */
  readonly text: string
}

const BEGIN = /^ {0,3}<\/?(?:details|summary)(?=[\s>])/i
/** A tag of a fold, by itself or before its summary: one that words follow is what they are about. */
const TAG =
  /[ \t]*(?:<details(\s[^<>]*)?>(?=[ \t]*(?:\n|<summary[\s>]|$))|<\/details\s*>|<summary(?:\s[^<>]*)?>((?:(?!<\/?summary|\n[ \t]*\n).)*)(?:<\/summary\s*>|$))/isy
/** One at the end of a line of text. */
const END = /^((?:[^`]|`[^`]*`)*\S)<\/details\s*>[ \t]*$/i
/** A summary is set in bold as it is. */
const BOLD = /<\/?(?:b|strong|h[1-6])>/gi

/** Cuts Markdown where folds begin and end. */
export function piecesOf(raw: string): readonly Piece[] {
  if (!/<\/?(?:details|summary)[\s>]/i.test(raw)) return [{ kind: 'text', text: raw }]
  const pieces: Piece[] = []
  let text = ''
  const add = (tag: Piece) => {
    if (text.trim() !== '') pieces.push({ kind: 'text', text })
    pieces.push(tag)
    text = ''
  }
  let fence: RegExp | null = null
  for (let at = 0; at < raw.length; ) {
    const end = raw.indexOf('\n', at) + 1 || raw.length
    const line = raw.slice(at, end).replace(/\n$/, '')
    if (!fence && BEGIN.test(line)) at = readTags(raw, at, add)
    const rest = raw.slice(at, Math.max(at, end))
    const [, before] = fence ? [] : (END.exec(rest.replace(/\n$/, '')) ?? [])
    text += before ?? rest
    if (before !== undefined) add({ kind: 'tag', text: CLOSE })
    const [, , mark] = FENCE.exec(line) ?? []
    if (fence?.test(line)) fence = null
    else if (!fence && mark) fence = fenceEnd(mark)
    at = Math.max(at, end)
  }
  if (text.trim() !== '' || pieces.length === 0) pieces.push({ kind: 'text', text })
  return pieces
}

/** Reads tags one behind the other. @returns where they end */
function readTags(raw: string, from: number, add: (tag: Piece) => void): number {
  TAG.lastIndex = from
  let at = from
  for (let found = TAG.exec(raw); found; found = TAG.exec(raw)) {
    at = TAG.lastIndex
    add(pieceOf(found))
  }
  return at
}

function pieceOf([tag, attributes, summary]: RegExpExecArray): Piece {
  if (summary !== undefined) return { kind: 'summary', text: summary.replace(BOLD, '').trim() }
  if (tag.includes('</')) return { kind: 'tag', text: CLOSE }
  return { kind: 'tag', text: /\sopen\b/i.test(attributes ?? '') ? OPEN_AT_ONCE : OPEN }
}

// ------------------------------------------------------------------------------------------------- nesting

export interface Fold {
  /** The block that opens it. */
  readonly at: number
  readonly isOpen: boolean
  /** The block that is seen while it is closed; null: none was written. */
  readonly summary: number | null
  readonly inside: readonly Part[]
}
/** A block, or blocks that are folded. */
export type Part = number | Fold

/** Folds in folds: of many more the browser would run out of stack, and there would be no page. */
const DEPTH_MAX = 20

/** Blocks in their folds. One that nothing closes goes on to the end; an end of nothing is nothing. */
export function nested(blocks: readonly string[]): readonly Part[] {
  const whole: Part[] = []
  const lists = [whole]
  blocks.forEach((block, at) => {
    const list = lists.at(-1)!
    if (block === CLOSE) {
      if (lists.length > 1) lists.pop()
    } else if (block !== OPEN && block !== OPEN_AT_ONCE) list.push(at)
    else if (lists.length > DEPTH_MAX) lists.push(list)
    else {
      const inside: Part[] = []
      const summary = blocks[at + 1]?.startsWith(SUMMARY) ? at + 1 : null
      list.push({ at, isOpen: block === OPEN_AT_ONCE, summary, inside })
      lists.push(inside)
    }
  })
  return whole
}
