// Rounds of a measurement in which frames are delivered: some before the first that counts, and of how many a sample is the mean.

/** What one delivered frame cost. */
export interface Sample {
  /** Microseconds of the server's CPU time. */
  readonly cpuPerFrame: number
  /** Of these, those of the threads of the store. */
  readonly storePerFrame: number
  readonly framesPerS: number
  /** From a delta to its reader, p50 in ms, of a script whose deltas say when they were made; else 0. */
  readonly ageMs: number
}

export interface Rounds {
  /** Until the code that runs for every frame is compiled as it stays. */
  readonly warmUp: number
  /** Of one sample. */
  readonly each: number
}

/** A round flat out lasts a fraction of a second, and no two are alike. */
export function roundsOf({ rate }: { readonly rate: number }): Rounds {
  return rate === 0 ? { warmUp: 8, each: 8 } : { warmUp: 3, each: 1 }
}

/** The mean of some rounds. */
export async function mean(rounds: number, one: () => Promise<Sample>): Promise<Sample> {
  const all: Sample[] = []
  for (let i = 0; i < rounds; i++) all.push(await one())
  const of = (what: keyof Sample) => all.reduce((sum, sample) => sum + sample[what], 0) / rounds
  return {
    cpuPerFrame: of('cpuPerFrame'),
    storePerFrame: of('storePerFrame'),
    framesPerS: of('framesPerS'),
    ageMs: of('ageMs')
  }
}
