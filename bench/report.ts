// What a bench prints: a table for people, and a JSON line for machines, with what it was measured on.
import { execFileSync } from 'node:child_process'
import { cpus } from 'node:os'

export type Row = Readonly<Record<string, string | number>>

/** Prints the rows as a Markdown table under the question, then one JSON line. */
export function report(question: string, configuration: object, rows: readonly Row[]): void {
  process.stdout.write(`\n### ${question}\n\n${table(rows)}\n`)
  process.stdout.write(`${JSON.stringify({ question, configuration, machine: machine(), commit: commit(), rows })}\n`)
}

export function machine(): string {
  const [first] = cpus()
  return `${cpus().length} x ${first?.model.trim() ?? 'unknown'}, Node ${process.version}`
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore']
    }).trim()
  } catch {
    return 'unknown'
  }
}

function table(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {})
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`
  return [
    line(names),
    line(names.map(() => '---')),
    ...rows.map((row) => line(names.map((name) => row[name] ?? '')))
  ].join('\n')
}

/** A number as people read it: three digits that count. */
export function short(value: number): number {
  return value === 0 ? 0 : Number(value.toPrecision(3))
}

/** Median with the smallest and the largest, of at least one. */
export function median(values: readonly number[]): { readonly mid: number; readonly text: string } {
  const sorted = [...values].sort((a, b) => a - b)
  const mid = sorted[Math.floor(sorted.length / 2)]!
  return { mid, text: `${short(mid)} [${short(sorted[0]!)}-${short(sorted.at(-1)!)}]` }
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? 0
}
