// The target table as a picture: a bar a row, its length the share of its bound that is used up. Inside the line is excellent.
import type { Entry } from './report.ts'
import { measuresOf, resultOf, TARGETS, type Verdict } from './targets.ts'

const WIDTH = 900
const ROW = 24
const TOP = 40
const LABELS = 430
/** Where the bound lies, and where bars are cut. */
const BOUND = 640
const END = 860
const COLOURS: Readonly<Record<Verdict, string>> = { excellent: '#2e7d4f', good: '#b08300', short: '#b3402c' }

interface Bar {
  readonly label: string
  readonly figure: string
  /** 1: just at the bound; less is better. */
  readonly share: number
  readonly verdict: Verdict
}

function barsOf(entries: readonly Entry[]): Bar[] {
  return measuresOf(entries).map((measure) => {
    const { ours, floor, ratio, verdict, target } = resultOf(measure)
    const { scenario, unit, excellent } = TARGETS[target]
    const rounded = Number(ours.toPrecision(3)).toLocaleString('en')
    if ('ratio' in excellent)
      return {
        label: scenario,
        figure: `${(ratio ?? 0).toFixed(2)}x of ${excellent.ratio}x`,
        share: (ratio ?? 0) / excellent.ratio,
        verdict
      }
    const [share, of] =
      'atLeast' in excellent
        ? [excellent.atLeast / ours, excellent.atLeast]
        : shareOf(ours, 'more' in excellent ? (floor ?? 0) + excellent.more : excellent.atMost)
    return { label: scenario, figure: `${rounded} of ${of.toLocaleString('en')} ${unit}`, share, verdict }
  })
}

function shareOf(ours: number, most: number): readonly [share: number, of: number] {
  return [ours / most, Number(most.toPrecision(3))]
}

/** An SVG of the rows that were measured. */
export function chart(entries: readonly Entry[]): string {
  const bars = barsOf(entries)
  const height = TOP + bars.length * ROW + 12
  const { commit = '', machine = '' } = entries.at(-1) ?? {}
  const lines = bars.map((bar, i) => barText(bar, TOP + i * ROW))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">
<title>What the gateway costs, against its targets</title>
<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>
<text x="12" y="20" fill="#444444">How much of its bound each figure uses: shorter is better, left of the line is excellent.</text>
<text x="${WIDTH - 12}" y="20" text-anchor="end" fill="#888888" font-size="10">${escaped(`${commit}, ${machine}`)}</text>
${lines.join('\n')}
<line x1="${BOUND}" y1="${TOP - 6}" x2="${BOUND}" y2="${height - 8}" stroke="#222222" stroke-dasharray="3 3"/>
</svg>
`
}

function barText({ label, figure, share, verdict }: Bar, y: number): string {
  const length = Math.max(2, Math.min(END - LABELS, share * (BOUND - LABELS)))
  const after = LABELS + length + 6
  // A long bar has its figure inside.
  const at =
    after > END - 150
      ? `x="${Math.round(LABELS + length - 6)}" text-anchor="end" fill="#ffffff"`
      : `x="${Math.round(after)}" fill="#222222"`
  return `<text x="${LABELS - 8}" y="${y + 13}" text-anchor="end" fill="#222222">${escaped(label)}</text>
<rect x="${LABELS}" y="${y}" width="${Math.round(length)}" height="${ROW - 6}" rx="2" fill="${COLOURS[verdict]}"/>
<text ${at} y="${y + 13}" font-size="11">${escaped(figure)}</text>`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
