// The difference of two texts, line by line, in the unified form that `diff -u` prints.

export interface LineDiff {
  /** Hunks, without a header that names files; '' for equal texts. */
  readonly hunks: string
  readonly additions: number
  readonly deletions: number
}

/** ' ': in both texts; '-': in the old one; '+': in the new one. */
type Mark = ' ' | '-' | '+'
type Edit = readonly [mark: Mark, line: string]

/** Lines around a change that are shown with it. */
const CONTEXT = 3
/** Texts with more differences are shown as replaced: time and memory grow with the square of their number. */
const EDITS_MAX = 500
const NO_NEWLINE = '\\ No newline at end of file'

export function lineDiff(before: string, after: string): LineDiff {
  const edits = editsBetween(linesOf(before), linesOf(after))
  const count = (mark: Mark) => edits.reduce((sum, [its]) => (its === mark ? sum + 1 : sum), 0)
  return { hunks: hunksOf(edits), additions: count('+'), deletions: count('-') }
}

/** With their line ends, so that a last line without one is another line. */
function linesOf(text: string): string[] {
  return text === '' ? [] : text.split(/(?<=\n)/)
}

function editsBetween(before: readonly string[], after: readonly string[]): Edit[] {
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before[start] === after[start]) start++
  let end = 0
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const old = before.slice(start, before.length - end)
  const fresh = after.slice(start, after.length - end)
  const same = (lines: readonly string[]) => lines.map((line): Edit => [' ', line])
  const changed = shortestEdits(old, fresh) ?? [...marked('-', old), ...marked('+', fresh)]
  return [...same(before.slice(0, start)), ...changed, ...same(before.slice(before.length - end))]
}

function marked(mark: Mark, lines: readonly string[]): Edit[] {
  return lines.map((line): Edit => [mark, line])
}

/** Myers' greedy algorithm: furthest points of each diagonal, by the number of edits. null: more than EDITS_MAX. */
function shortestEdits(old: readonly string[], fresh: readonly string[]): Edit[] | null {
  if (Math.abs(old.length - fresh.length) > EDITS_MAX) return null
  const reached: Map<number, number>[] = []
  let furthest = new Map([[1, 0]])
  for (let edits = 0; edits <= EDITS_MAX; edits++) {
    const next = new Map<number, number>()
    for (let k = -edits; k <= edits; k += 2) {
      let x = startOn(furthest, k, edits)
      while (x < old.length && x - k < fresh.length && old[x] === fresh[x - k]) x++
      next.set(k, x)
      if (x >= old.length && x - k >= fresh.length) return tracedBack(old, fresh, reached)
    }
    reached.push(next)
    furthest = next
  }
  return null
}

/** Whether diagonal `k` is entered from the one above, by an addition, or from the one below, by a deletion. */
function isAddition(furthest: ReadonlyMap<number, number>, k: number, edits: number): boolean {
  return k === -edits || (k !== edits && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1))
}

function startOn(furthest: ReadonlyMap<number, number>, k: number, edits: number): number {
  return isAddition(furthest, k, edits) ? (furthest.get(k + 1) ?? 0) : (furthest.get(k - 1) ?? 0) + 1
}

function tracedBack(
  old: readonly string[],
  fresh: readonly string[],
  reached: readonly ReadonlyMap<number, number>[]
): Edit[] {
  const edits: Edit[] = []
  let x = old.length
  let y = fresh.length
  const back = (toX: number, toY: number) => {
    while (x > toX && y > toY) {
      edits.push([' ', old[--x]!])
      y--
    }
  }
  for (let count = reached.length; count > 0; count--) {
    const furthest = reached[count - 1]!
    const k = x - y
    const isAdded = isAddition(furthest, k, count)
    const fromK = isAdded ? k + 1 : k - 1
    const fromX = furthest.get(fromK) ?? 0
    const fromY = fromX - fromK
    back(isAdded ? fromX : fromX + 1, isAdded ? fromY + 1 : fromY)
    edits.push(isAdded ? ['+', fresh[--y]!] : ['-', old[--x]!])
  }
  back(0, 0)
  return edits.reverse()
}

function hunksOf(edits: readonly Edit[]): string {
  const places = edits.flatMap(([mark], at) => (mark === ' ' ? [] : [at]))
  const lines: string[] = []
  let oldLine = 1
  let newLine = 1
  let done = 0
  const pass = (to: number) => {
    for (; done < to; done++) {
      const [mark] = edits[done]!
      if (mark !== '+') oldLine++
      if (mark !== '-') newLine++
    }
  }
  for (let at = 0; at < places.length; ) {
    const from = Math.max(0, places[at]! - CONTEXT)
    let last = at
    while (last + 1 < places.length && places[last + 1]! - places[last]! <= 2 * CONTEXT) last++
    const hunk = edits.slice(from, places[last]! + CONTEXT + 1)
    pass(from)
    const range = (line: number, without: Mark) => {
      const length = hunk.filter(([mark]) => mark !== without).length
      return `${length === 0 ? line - 1 : line},${length}`
    }
    lines.push(`@@ -${range(oldLine, '+')} +${range(newLine, '-')} @@\n`, ...hunk.map(lineOf))
    pass(from + hunk.length)
    at = last + 1
  }
  return lines.join('')
}

function lineOf([mark, line]: Edit): string {
  return line.endsWith('\n') ? `${mark}${line}` : `${mark}${line}\n${NO_NEWLINE}\n`
}
