// The server's metrics of the last hour, loaded while an administrator has the page open.
import { signal } from '@preact/signals'
import { colloquy } from './api.ts'

export interface Sample {
  /** Unix seconds. */
  readonly at: number
  readonly values: ReadonlyMap<string, number>
}

const EVERY_MS = 5000
const HOUR_S = 3600

export const samples = signal<readonly Sample[]>([])
let timer: ReturnType<typeof setInterval> | null = null

/** Starts polling, once. */
export function watchFigures(): void {
  if (timer) return
  timer = setInterval(() => void read(), EVERY_MS)
  void read()
}

interface Hour {
  readonly at: readonly number[]
  readonly values: Readonly<Record<string, readonly (number | null)[]>>
}

async function read(): Promise<void> {
  const after = samples.value.at(-1)?.at ?? 0
  const hour = await colloquy.call<Hour>('GET', `/metrics/hour?after=${Math.floor(after)}`).catch(() => null)
  if (!hour) return
  const fresh = hour.at.map((at, i) => ({ at, values: readingAt(hour, i) })).filter(({ at }) => at > after)
  const now = fresh.at(-1)?.at ?? after
  samples.value = [...samples.value.filter((sample) => sample.at > now - HOUR_S), ...fresh]
}

function readingAt({ values }: Hour, i: number): Map<string, number> {
  const pairs = Object.entries(values).map(([name, column]) => [name, column[i] ?? Number.NaN] as const)
  return new Map(pairs.filter(([, value]) => !Number.isNaN(value)))
}

/** The sum over all series whose labels contain `label`; NaN: none. */
export function total({ values }: Sample, name: string, label = ''): number {
  let sum = Number.NaN
  for (const [key, value] of values)
    if (key === name || (key.startsWith(`${name}{`) && key.includes(label))) sum = (Number.isNaN(sum) ? 0 : sum) + value
  return sum
}
