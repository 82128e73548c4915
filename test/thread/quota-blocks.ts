// Blocks of quotas that a process holds: they are given back together, and nobody who takes meanwhile loses one.
import t from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { Op } from '../../lib/store/store.ts'
import { QuotaBlocks } from '../../lib/thread/quota-blocks.ts'
import { until } from '../fixtures/until.ts'

t.test('who takes while others’ blocks are given back asks for one block, and gets it', async (t) => {
  const store = openMemoryStore()
  const asked: Op[] = []
  let open = () => {}
  let gate = Promise.resolve()
  const committer = new Committer(
    async (groups) => {
      asked.push(...groups.flatMap(({ ops }) => ops))
      await gate
      return store.apply(groups)
    },
    { flushMs: 1 }
  )
  t.teardown(() => committer.stop())
  const blocks = new QuotaBlocks({
    writer: committer,
    onTrouble: (error) => t.fail(String(error))
  })
  blocks.start()
  t.ok(await blocks.take('ann', 'runs', 160, 1), 'nine of ten are left')
  t.ok(await blocks.take('bob', 'runs', 16, 1), 'none of one is')
  gate = new Promise((resolve) => {
    open = resolve
  })
  const stopped = blocks.stop()
  await until(() => asked.some(({ name }) => name === 'quota.give'), 'what is left is given back')
  const taken = blocks.take('bob', 'runs', 16, 1)
  open()
  t.ok(await taken)
  await stopped
  const ofBob = asked.filter((op) => op.name === 'quota.take' && op.user_id === 'bob')
  t.equal(ofBob.length, 2)
  t.equal(asked.filter(({ name }) => name === 'quota.give').length, 1)
})

t.test('what was taken before midnight and came to nothing is not given to the next day', async (t) => {
  const store = openMemoryStore()
  const committer = new Committer((groups) => store.apply(groups), { flushMs: 1 })
  t.teardown(() => committer.stop())
  let now = Date.parse('2026-11-26T23:59:59Z')
  const blocks = new QuotaBlocks({ writer: committer, onTrouble: (error) => t.fail(String(error)), now: () => now })
  const take = () => blocks.take('ann', 'runs', 2, 1)
  const taken = await take()
  now += 2000
  t.ok(await take())
  taken?.putBack()
  t.ok(await take())
  t.equal(await take(), null, 'two a day')
})
