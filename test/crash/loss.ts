// What a kill takes back: frames that readers were shown and the store did not have yet. How old the oldest of them is, for many runs
// at once, is what bin/README.md says of the window of loss.
import t from 'tap'
import { databaseSection } from '../fixtures/backends.ts'
import { startChild } from '../fixtures/child.ts'
import { homeOf, type Options, type Person, signIn } from '../fixtures/gateway.ts'
import { freePort } from '../fixtures/free-port.ts'
import type { Frame, Stream } from '../fixtures/stream.ts'

const isLong = process.env.COLLOQUY_LONG !== undefined
const RUNS = Number(process.env.COLLOQUY_LOSS_RUNS ?? (isLong ? 200 : 30))
const KILLS = isLong ? 5 : 2
/** Deltas a second of each run. */
const RATE = 50
/** Of streams.unstored_ms, by which agents are slowed before more can get lost; ten times as much is asserted. */
const UNSTORED_MS = 2000
const RULE_OF_TEN = 10

const cursorsOf = (frames: readonly Frame[]) => frames.flatMap(({ id }) => (id === null ? [] : [id]))

/** For how long the oldest frame had been shown that is not there any more; 0: all that was shown is there. */
function lossOf({ frames, arrivals }: Stream, stored: ReadonlySet<string>, killed: number): number {
  const lost = frames.findIndex(({ id }) => id !== null && !stored.has(id))
  return lost < 0 ? 0 : Math.max(0, killed - arrivals[lost]!)
}

for (const backend of ['sqlite', 'postgres'] as const)
  t.test(
    `a kill under the load of ${RUNS} runs takes back no more than the moment before it (${backend})`,
    { timeout: isLong ? 900_000 : 250_000 },
    async (t) => {
      const home = homeOf(t)
      const port = await freePort()
      const config: Options = {
        database: await databaseSection(t, backend),
        runs: { lease_ms: 2000, active_per_user: 0 }
      }
      const losses: number[] = []
      let person: Person | null = null
      for (let n = 0; n < KILLS; n++) {
        const child = await startChild(t, { home, port, config })
        person ??= await signIn(child)
        const user = person
        const streams = await Promise.all(
          Array.from({ length: RUNS }, async () =>
            user.stream(await user.thread(), `/demo deltas=9999 rate=${RATE}`, { stream_mode: ['messages-tuple'] })
          )
        )
        await Promise.all(streams.map((stream) => stream.untilFrames(RATE + n * 7)))
        const killed = performance.now()
        await child.kill()
        await Promise.all(streams.map(({ ended }) => ended))
        const next = await startChild(t, { home, port, config })
        for (const stream of streams) {
          const whole = await (await user.join(stream.runPath, null, ['messages-tuple'])).whole()
          losses.push(lossOf(stream, new Set(cursorsOf(whole)), killed))
        }
        await next.kill()
      }
      losses.sort((one, other) => one - other)
      const at = (share: number) => Math.round(losses[Math.floor((losses.length - 1) * share)]!)
      t.comment(
        `${backend}: ${RUNS} runs of ${RATE} deltas a second, ${KILLS} kills: a kill takes back ${at(0.5)} ms in the middle, ${at(0.99)} ms of 99 in 100, ${at(1)} ms at most`
      )
      t.ok(at(1) < UNSTORED_MS * RULE_OF_TEN)
    }
  )
