// The torture: thousands of readers that leave and come back while processes are killed, stopped and paused, databases are locked,
// slow and lost, connections are cut, credentials revoked, clocks wrong and agents ill-behaved, all at once. Nobody loses anything.
//
// The plan follows from the seed. `npm run test:torture -- --seed S --rejoins N` runs rounds until there were so many rejoins; what
// fails names the seed of its round, which `--seed S --rounds 1` repeats.
import { parseArgs } from 'node:util'
import t from 'tap'
import { ANSWERING, type Answering, IN_PYTHON, KINDS, type Kind, tortureRound } from '../fixtures/torture.ts'

const { values } = parseArgs({
  strict: false,
  options: {
    seed: { type: 'string' },
    rejoins: { type: 'string' },
    rounds: { type: 'string' },
    kind: { type: 'string' },
    answers: { type: 'string' },
    ms: { type: 'string' },
    readers: { type: 'string' }
  }
})
const isLong = values.rejoins !== undefined || values.rounds !== undefined
const seed = Number(values.seed ?? 1)
const rejoinsWanted = Number(values.rejoins ?? 1)
const rounds = Number(values.rounds ?? (isLong ? Number.POSITIVE_INFINITY : KINDS.length))

/** Who answers in turn. Graphs in Python only in long ones: their process is loaded anew at each start. */
async function answering(): Promise<readonly Answering[]> {
  if (!isLong) return ANSWERING
  const { isMissing } = await import('../fixtures/torture-python.ts')
  if (isMissing) t.comment(`without graphs in Python: ${isMissing}`)
  return isMissing ? ANSWERING : [...ANSWERING, ...IN_PYTHON]
}

const answerers = await answering()

// A round takes what it takes: what hangs is found by its readers.
if (isLong) t.setTimeout(0)
let rejoins = 0
for (let n = 0; n < rounds && (!isLong || values.rounds !== undefined || rejoins < rejoinsWanted); n++) {
  const kind = (values.kind as Kind | undefined) ?? KINDS[(seed + n) % KINDS.length]!
  // Each kind meets each of them.
  const answers =
    (values.answers as Answering | undefined) ?? answerers[Math.floor((seed + n) / KINDS.length) % answerers.length]!
  const round = {
    seed: seed + n,
    kind,
    answers,
    readers: Number(values.readers ?? (isLong ? 60 : 6)),
    ms: Number(values.ms ?? (isLong ? 30_000 : 2000))
  }
  await t.test(
    `nobody who reads what ${answers === 'agent' ? 'an' : 'a'} ${answers} says on ${kind} misses anything, sees anything twice or waits for ever (seed ${round.seed})`,
    async (t) => {
      if (isLong) t.setTimeout(0)
      const verdict = await tortureRound(t, round)
      rejoins += verdict.rejoins + verdict.threadRejoins
      t.same(verdict.failures, [])
      t.ok(verdict.rejoins > 0 && verdict.runs > 0)
      t.comment(JSON.stringify({ ...round, ...verdict, failures: verdict.failures.length, total: rejoins }))
    }
  )
}
