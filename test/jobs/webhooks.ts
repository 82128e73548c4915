// What stays in the job of a webhook whose run is about to be removed: what would have been sent, in the form of whoever began the run.
import { getEventListeners } from 'node:events'
import t from 'tap'
import type { Job } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import { type Notice, Webhooks } from '../../lib/jobs/webhooks.ts'
import { aStoredRun } from '../fixtures/run-log.ts'

const URL = 'https://hooks.example.com/a'
const job = (payload: object): Job => ({
  kind: 'webhook',
  key: 'r',
  user_id: 'ann',
  thread_id: 't',
  due_at: null,
  attempts: 1,
  last_error: null,
  owner: 'one',
  payload: JSON.stringify(payload)
})

/** One with a run, until it is removed. */
function hooks(told: Notice | 'none' | null) {
  const sent: { url: string; init: RequestInit }[] = []
  const kept = { run: aStoredRun({ run_id: 'r', status: 'success' }) as Run | null, job: job({ url: URL }) }
  const webhooks = new Webhooks({
    store: { runs: { get: async () => kept.run }, jobs: { ofThread: async () => [kept.job] } },
    view: ({ run_id }) => ({ run_id }),
    valuesOf: async () => '{}',
    told: async () => told,
    post: async (url, init) => {
      sent.push({ url, init })
      return new Response('')
    },
    options: { secret: null, timeout_ms: 1000 }
  })
  const remove = async () => {
    const ops = await webhooks.kept('t')
    kept.run = null
    return ops
  }
  return { webhooks, sent, remove }
}

t.test('headers of a protocol stay with its body', async (t) => {
  const { webhooks, sent, remove } = hooks({ body: '{"task":1}', headers: { authorization: 'Bearer theirs' } })
  const [op] = await remove()
  t.match(op, { name: 'job.change', kind: 'webhook', key: 'r' })
  const { payload } = op as { payload: string }
  await webhooks.deed({ ...job({}), payload }, new AbortController().signal)
  t.match(sent, [{ url: URL, init: { body: '{"task":1}', headers: { authorization: 'Bearer theirs' } } }])
})

t.test('what would not have been sent is not sent afterwards either', async (t) => {
  const { remove } = hooks('none')
  t.match(await remove(), [{ name: 'job.remove', kind: 'webhook', key: 'r' }])
})

t.test('ours is the run, which its job has in short', async (t) => {
  const { webhooks, sent, remove } = hooks(null)
  const [op] = await remove()
  const { payload } = op as { payload: string }
  await webhooks.deed({ ...job({}), payload }, new AbortController().signal)
  t.match(JSON.parse(String(sent[0]?.init.body)), { run_id: 'r', values: {} })
})

// Node 20 keeps an entry for ever of each signal that AbortSignal.any derives of one that lives on.
t.test('a delivery leaves nothing in the signal of the process', async (t) => {
  const { webhooks, sent } = hooks(null)
  const { signal } = new AbortController()
  const kept = () => Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  for (let n = 0; n < 3; n++) await webhooks.deed(job({ url: URL }), signal)
  t.equal(sent.length, 3)
  t.equal(kept(), undefined)
  t.same(getEventListeners(signal, 'abort'), [])
})
