// What the server does, as figures over the last hour: read from /metrics while an administrator has the page open.
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

/** Begins to read; again is harmless. */
export function watchFigures(): void {
  if (timer) return
  timer = setInterval(() => void read(), EVERY_MS)
  void read()
}

async function read(): Promise<void> {
  const response = await colloquy.send('GET', '/metrics').catch(() => null)
  if (!response) return
  const values = parse(await response.text())
  const at = Date.now() / 1000
  samples.value = [...samples.value.filter((sample) => sample.at > at - HOUR_S), { at, values }]
}

/** Lines of Prometheus' text form: `name{labels} value`. */
function parse(text: string): Map<string, number> {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, name, value] = /^([a-z_]+(?:\{[^}]*\})?) (\S+)$/.exec(line) ?? []
    if (name && value) values.set(name, Number(value))
  }
  return values
}

/** The sum over all labels that hold `label`; NaN where there is none. */
export function total({ values }: Sample, name: string, label = ''): number {
  let sum = Number.NaN
  for (const [key, value] of values)
    if (key === name || (key.startsWith(`${name}{`) && key.includes(label))) sum = (Number.isNaN(sum) ? 0 : sum) + value
  return sum
}
