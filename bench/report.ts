// What a bench prints: a table for people, and a JSON line for machines, with what it was measured on.
import { execFileSync } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { TargetName } from './targets.ts'

export type Row = Readonly<Record<string, string | number>>

/** What was measured for a row of the target table: one figure a repeat. */
export interface Measure {
  readonly target: TargetName
  readonly ours: readonly number[]
  /** Measured in the same minutes; empty: there is none. */
  readonly floor: readonly number[]
}

/** One line of a file of results. */
export interface Entry {
  readonly question: string
  readonly configuration: object
  readonly machine: string
  readonly commit: string
  readonly rows: readonly Row[]
  readonly measures: readonly Measure[]
}

let file: string | null = null

/** From now on the JSON lines go to the end of this file as well. */
export function reportTo(path: string): void {
  file = path
}

/** Everything that was reported by this process. */
export const entries: Entry[] = []

/** Prints the rows as a Markdown table under the question, then one JSON line. */
export function report(
  question: string,
  configuration: object,
  rows: readonly Row[],
  measures: readonly Measure[] = []
): void {
  const entry: Entry = { question, configuration, machine: machine(), commit: commit(), rows, measures }
  const line = `${JSON.stringify(entry)}\n`
  entries.push(entry)
  process.stdout.write(`\n### ${question}\n\n${table(rows)}\n`)
  process.stdout.write(line)
  if (file !== null) appendFileSync(file, line)
}

export function machine(): string {
  const [first] = cpus()
  return `${cpus().length} x ${first?.model.trim() ?? 'unknown'}, Node ${process.version}`
}

export function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore']
    }).trim()
  } catch {
    return 'unknown'
  }
}

export function table(rows: readonly Row[]): string {
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
  const spread = sorted.length > 1 ? ` [${short(sorted[0]!)}-${short(sorted.at(-1)!)}]` : ''
  return { mid, text: `${short(mid)}${spread}` }
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? 0
}
