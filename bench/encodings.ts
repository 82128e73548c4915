// What does a frame cost when one run is read in five encodings at once, beside readers of the dearest one; and how much older is a frame
// when it is stored before it is shown?
import type { Script } from './agent.ts'
import { type Candidate, cpu, type Samples, samplesOf, type Transport } from './fanout.ts'
import type { Options } from './options.ts'
import { median, report, short } from './report.ts'

const RATE = 100
const SIZE = 60
const READERS = 200
const ENCODINGS: readonly Transport[] = ['run', 'events', 'responses', 'chat', 'ag-ui']
const ALONE = Object.fromEntries(ENCODINGS.map((transport): [string, Candidate] => [transport, { transport }]))

export async function encodings(options: Options): Promise<void> {
  const { quick, repeats, joiners: given } = options
  const seconds = quick ? 1 : 3
  const joiners = given ?? READERS
  const script: Script = { deltas: RATE * seconds, size: SIZE, rate: RATE }
  const samples = await samplesOf({ ...ALONE, mixed: { transport: ENCODINGS } }, joiners, script, options)
  const mid = (name: string) => median(cpu(samples[name])).mid
  const dearest = ENCODINGS.toSorted((a, b) => mid(b) - mid(a))[0]!
  const row = {
    joiners,
    ...Object.fromEntries(ENCODINGS.map((name) => [`${name} us/frame`, median(cpu(samples[name])).text])),
    'all five us/frame': median(cpu(samples.mixed)).text,
    'to the dearest': `${short(mid('mixed') / mid(dearest))} (${dearest})`
  }
  const measure = { target: 'encodings-200', ours: cpu(samples.mixed), floor: cpu(samples[dearest]) } as const
  report(
    'What does a frame cost when a run is read in five encodings?',
    { repeats, size: SIZE, seconds },
    [row],
    [measure]
  )
  await durability(script, options)
}

async function durability(script: Script, options: Options): Promise<void> {
  const candidates = { async: {}, sync: { isSync: true } }
  const samples = await samplesOf(candidates, 1, { ...script, isStamped: true }, options)
  const age = (name: keyof Samples) => median((samples[name] ?? []).map(({ ageMs }) => ageMs)).text
  const row = { 'async p50 ms': age('async'), 'sync p50 ms': age('sync') }
  report('How old is a frame that is stored before it is shown?', { repeats: options.repeats }, [row], [])
}
