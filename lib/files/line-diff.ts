// The difference of two texts, line by line, in the unified form that `diff -u` prints.
import { formatPatch, OMIT_HEADERS, structuredPatch } from 'diff'

interface LineDiff {
  /** Hunks, without a header that names files; '' for equal texts. */
  readonly hunks: string
  readonly additions: number
  readonly deletions: number
}

type Patch = Parameters<typeof formatPatch>[0] & ReturnType<typeof structuredPatch>
type Hunk = NonNullable<Patch>['hunks'][number]

/** Lines around a change that are shown with it. */
const CONTEXT = 3
/** Texts with more differences are shown as replaced: time and memory grow with the square of their number. */
const EDITS_MAX = 500
const NO_NEWLINE = '\\ No newline at end of file'

export function lineDiff(before: string, after: string): LineDiff {
  const options = { context: CONTEXT, maxEditLength: EDITS_MAX }
  const found = structuredPatch('', '', before, after, undefined, undefined, options)
  const hunks = found ? found.hunks : [replacement(linesOf(before), linesOf(after))]
  const count = (mark: string) =>
    hunks.reduce((sum, { lines }) => sum + lines.filter((line) => line.startsWith(mark)).length, 0)
  const names = { oldFileName: '', newFileName: '', oldHeader: undefined, newHeader: undefined }
  const text = hunks.length === 0 ? '' : formatPatch({ ...names, hunks: [...hunks] }, OMIT_HEADERS)
  return { hunks: text, additions: count('+'), deletions: count('-') }
}

/** With their line ends, so that a last line without one is another line. */
function linesOf(text: string): string[] {
  return text === '' ? [] : text.split(/(?<=\n)/)
}

/** All lines but those that both texts begin and end with. */
function replacement(before: readonly string[], after: readonly string[]): Hunk {
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before[start] === after[start]) start++
  let end = 0
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const from = Math.max(0, start - CONTEXT)
  const behind = Math.max(0, end - CONTEXT)
  const marked = (mark: string, lines: readonly string[]) => lines.flatMap((line) => lineOf(mark, line))
  return {
    oldStart: from + 1,
    oldLines: before.length - behind - from,
    newStart: from + 1,
    newLines: after.length - behind - from,
    lines: [
      ...marked(' ', before.slice(from, start)),
      ...marked('-', before.slice(start, before.length - end)),
      ...marked('+', after.slice(start, after.length - end)),
      ...marked(' ', before.slice(before.length - end, before.length - behind))
    ]
  }
}

function lineOf(mark: string, line: string): string[] {
  return line.endsWith('\n') ? [`${mark}${line.slice(0, -1)}`] : [`${mark}${line}`, NO_NEWLINE]
}
