// Races: two things that happen to a run at one moment. Whoever wins, the run has one end, everybody is told the same one, and
// nothing comes after it. Real sockets, a real database, and a look at the disk behind the gateway's back.
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Store } from '../../lib/store/store.ts'
import { ScriptedAgent, type Stage } from '../fixtures/agent.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { digests, remainsOf } from '../fixtures/remains.ts'
import type { Stream } from '../fixtures/stream.ts'
import { sized } from '../fixtures/size.ts'

const RACES = sized(300, 1000)
const DELETES = sized(60, 200)
const AT_ONCE = 10
/** For how long nothing may come after an end, in ms. */
const QUIET_MS = sized(3000, 10_000)
/** Longer than any test: renewals take over what was left behind. */
const LEASE_MS = 600_000
const MODES = { stream_mode: ['messages-tuple', 'values'] }

const runIdOf = (path: string) => path.split('/').at(-1)!

/** `work` for each number below `count`, a few at a time; each of them is one of `AT_ONCE` workers. */
async function each(count: number, work: (n: number, worker: number) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (_: unknown, number: number) => {
    while (next < count) await work(next++, number)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

/** Counts for each run how often the store has ended it. */
function countingEnds(): { readonly ends: ReadonlyMap<string, number>; readonly behind: (store: Store) => Store } {
  const ends = new Map<string, number>()
  const behind = (store: Store): Store => ({
    ...store,
    apply: async (groups) => {
      const outcomes = await store.apply(groups)
      for (const [g, { ops }] of groups.entries()) {
        const outcome = outcomes[g]!
        for (const [o, op] of ops.entries())
          if (op.name === 'run.settle' && outcome.ok && outcome.results[o] === true)
            ends.set(op.run_id, (ends.get(op.run_id) ?? 0) + 1)
      }
      return outcomes
    }
  })
  return { ends, behind }
}

/** A run with its stream and its stage. */
async function begun(
  person: Person,
  agent: ScriptedAgent,
  threadId: string
): Promise<{ stream: Stream; stage: Stage; path: string }> {
  const stream = await person.stream(threadId, 'x', MODES)
  const path = stream.runPath
  return { stream, path, stage: await agent.stage({ run_id: runIdOf(path) }) }
}

async function statusOf(person: Person, path: string): Promise<string> {
  return textIn((await person.get(path)).body, 'status')
}

function countEnds({ frames }: Stream): number {
  return frames.filter(({ event }) => event === 'end').length
}

t.test(
  `${RACES} cancels against the finish: one status, one end frame, both as the cancel was answered, nothing later`,
  async (t) => {
    const { ends, behind } = countingEnds()
    const agent = new ScriptedAgent()
    const site = await openSite(t, { agent, behind })
    const person = await signIn(site)
    const threads = await Promise.all(Array.from({ length: AT_ONCE }, () => person.thread()))
    const outcomes: Record<string, number> = {}
    /** By how much the finish is put off, in ms: moved until both sides win equally often. */
    let lead = 1
    await each(RACES, async (n, worker) => {
      const { stream, stage, path } = await begun(person, agent, threads[worker]!)
      stage.say('said ', stage.input.runId)
      const action = n % 4 === 0 ? 'rollback' : 'interrupt'
      const finish = async () => {
        await pause(lead)
        if (n % 3 === 0) stage.reply('said all', { id: stage.input.runId })
        stage.finish()
      }
      const [answer] = await Promise.all([person.post(`${path}/cancel?action=${action}`), finish()])
      await stream.whole()
      const status = await statusOf(person, path)
      const expected = answer.status === 409 ? 'success' : action === 'rollback' ? 'error' : 'interrupted'
      const isRight = [202, 409].includes(answer.status) && status === expected && countEnds(stream) === 1
      if (!isRight) t.fail(`race ${n}: ${action} was answered ${answer.status}, the run is ${status}`)
      if (ends.get(runIdOf(path)) !== 1)
        t.fail(`race ${n}: the store has ended the run ${ends.get(runIdOf(path))} times`)
      outcomes[status] = (outcomes[status] ?? 0) + 1
      // In parts of itself: on a busy machine a cancel takes many times what it takes on a quiet one.
      lead = status === 'success' ? lead * 1.1 + 0.1 : Math.max(0, lead / 1.1 - 0.1)
    })
    t.comment(JSON.stringify(outcomes))
    t.ok(outcomes.success! > RACES / 10 && outcomes.interrupted! > RACES / 10, 'both sides have won')
    t.equal(ends.size, RACES)
    await stays(t, site.home)
    t.same(new Set(ends.values()), new Set([1]))
  }
)

/** What is on the disk stays as it is. */
async function stays(t: Test, home: string): Promise<void> {
  const before = digests(home)
  await pause(QUIET_MS)
  t.same(digests(home), before, `nothing is written in the ${QUIET_MS / 1000} s after`)
}

t.test(
  `${DELETES} threads deleted during their runs: one end frame, and neither a row nor a file of them, ever`,
  async (t) => {
    const site = await openSite(t)
    const person = await signIn(site)
    const gone: string[] = []
    const args = JSON.stringify({ path: 'report.md', content: 'x'.repeat(100_000) })
    const words = `/demo tool=write_file deltas=100 rate=1000 args=${args}`
    await each(DELETES, async (n) => {
      const threadId = await person.thread()
      const stream = await person.stream(threadId, words, MODES)
      gone.push(threadId, runIdOf(stream.runPath))
      await pause(Math.random() * 50)
      // Somebody who has not heard of it yet asks for more.
      const more = n % 2 === 0 ? person.run(threadId, words, { multitask_strategy: 'enqueue' }).catch(() => null) : null
      const deleted = await person.ask('DELETE', `/api/threads/${threadId}`)
      if (deleted.status !== 200) t.fail(`delete ${n} was answered ${deleted.status}: ${deleted.text}`)
      const late = await more
      if (late) gone.push(runIdOf(late))
      if ((await stream.ended) !== 'whole' || countEnds(stream) !== 1)
        t.fail(`the stream ${n} was ${await stream.ended}`)
      if ((await person.get(stream.runPath)).status !== 404) t.fail(`run ${n} is still there`)
      const isThere = remainsOf(site.home, [threadId])
      if (isThere.length) t.fail(`of thread ${n} there is: ${isThere.join(', ')}`)
    })
    t.same(remainsOf(site.home, gone), [])
    await stays(t, site.home)
    t.same(remainsOf(site.home, gone), [])
  }
)

t.test('a delete waits for an agent that does not listen: what it writes last goes with the thread', async (t) => {
  const folders: string[] = []
  const agent = new ScriptedAgent()
  const stubborn = {
    models: () => [],
    start: async (...[input, sink, signal]: Parameters<ScriptedAgent['start']>) => {
      await agent.start(input, sink, signal).catch(() => {})
      await pause(300)
      const { Paths } = await import('../../lib/files/paths.ts')
      folders.push(await new Paths(site.home).write(input.threadId, input.userId ?? undefined, 'late.md', 'late'))
    }
  }
  const site = await openSite(t, { agent: stubborn })
  const person = await signIn(site)
  const { stream, stage } = await begun(person, agent, await person.thread())
  const threadId = stage.input.threadId
  const deleted = await person.ask('DELETE', `/api/threads/${threadId}`)
  t.equal(deleted.status, 200)
  t.equal(folders.length, 1, 'it has let go')
  t.same(remainsOf(site.home, [threadId]), [])
  t.equal(await stream.ended, 'whole', 'its readers were told long before')
})

t.test('two cancels at once: one run, one end, and both are told how it is', async (t) => {
  const { ends, behind } = countingEnds()
  const agent = new ScriptedAgent()
  const person = await signIn(await openSite(t, { agent, behind }))
  const pairs = [
    ['interrupt', 'interrupt'],
    ['interrupt', 'rollback'],
    ['rollback', 'rollback']
  ] as const
  const threads = await Promise.all(Array.from({ length: AT_ONCE }, () => person.thread()))
  await each(pairs.length * 20, async (n, worker) => {
    const { stream, path } = await begun(person, agent, threads[worker]!)
    const [one, other] = pairs[n % pairs.length]!
    const answers = await Promise.all([
      person.post(`${path}/cancel?action=${one}`),
      person.post(`${path}/cancel?action=${other}&wait=true`)
    ])
    const status = await statusOf(person, path)
    const codes = answers.map((answer) => answer.status)
    // Of an interrupted run a cancel is welcome however often; a run that was rolled back is an error, and no more to be cancelled.
    const isRight =
      status === 'interrupted'
        ? one === 'interrupt' && codes[0] === 202 && codes[1] === 204
        : other === 'rollback' && codes.filter((code) => code === 409).length === 1
    if (!isRight) t.fail(`${one} and ${other} were answered ${codes}, the run is ${status}`)
    await stream.whole()
    if (countEnds(stream) !== 1 || ends.get(runIdOf(path)) !== 1) t.fail(`${one} and ${other}: more than one end`)
  })
  t.equal(ends.size, pairs.length * 20)
})

t.test('whoever joins while a run is let go gets all of it, and its end', async (t) => {
  const agent = new ScriptedAgent()
  const person = await signIn(await openSite(t, { agent }))
  const threads = await Promise.all(Array.from({ length: AT_ONCE }, () => person.thread()))
  await each(100, async (n, worker) => {
    const { stream, stage, path } = await begun(person, agent, threads[worker]!)
    stage.say('said ', stage.input.runId)
    const late = async (ms: number) => {
      await pause(ms)
      return (await person.join(path, null, MODES.stream_mode)).whole()
    }
    const waits = person.get(`${path}/join`, { headers: { accept: 'application/json' } })
    const joins = [0, 1, 2, 3, 5].map(late)
    await pause(n % 4)
    stage.finish()
    const frames = await stream.whole()
    for (const join of joins) t.same(await join, frames)
    const messages = listIn((await waits).body, 'messages')
    if (at(messages.at(-1), 'id') !== stage.input.runId) t.fail('who waits was told something else')
  })
})

// The end of one and the admission of the next may be in one commit.
onEachBackend(t, 'a run that is queued while the one before it ends is streamed to its end', async (t, backend) => {
  let claims = 0
  const countingClaims = (store: Store): Store => {
    const { peers } = store
    if (!peers) return store
    const claim = peers.claim.bind(peers)
    peers.claim = () => {
      claims++
      return claim()
    }
    return store
  }
  const config = { database: await databaseSection(t, backend), runs: { lease_ms: LEASE_MS } }
  const person = await signIn(await openSite(t, { config, behind: countingClaims }))
  const talk = async () => {
    const thread = await person.thread()
    const queued = { ...MODES, multitask_strategy: 'enqueue' }
    const streams: Stream[] = []
    for (let n = 0; n < 8; n++) streams.push(await person.stream(thread, '/demo deltas=2 rate=0', queued))
    return Promise.all(streams.map(({ ended }) => ended))
  }
  const endings = (await Promise.all(Array.from({ length: 6 }, talk))).flat()
  t.same(new Set(endings), new Set(['whole']))
  t.equal(claims, backend === 'postgres' ? 1 : 0, 'at the start only: none of them counts as left behind')
})
