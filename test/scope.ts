// Scope: who is asking, what the three cases of a user argument mean, and that nothing acts for a user by accident.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Agent, AgentInput } from '../lib/agent/runtime.ts'
import { asUser, currentUserId, ownerOf, withoutUser } from '../lib/base/scope.ts'
import { databaseSection, onEachBackend } from './fixtures/backends.ts'
import { asked, listIn, openSite, signIn, textIn, until } from './fixtures/gateway.ts'

t.test(
  '[Auth 7] a user argument: omitted is the current user, a text that user, null nobody in particular',
  async (t) => {
    asUser('ann', () => {
      t.equal(ownerOf(undefined, 'x'), 'ann')
      t.equal(ownerOf('bob', 'x'), 'bob')
      t.equal(ownerOf(null, 'x'), null)
    })
    t.equal(ownerOf('bob', 'x'), 'bob')
    t.equal(ownerOf(null, 'x'), null)
  }
)

t.test('[Auth 7] omitted while nobody is signed in is an error that names the method', async (t) => {
  t.throws(() => ownerOf(undefined, 'threads.get'), /threads\.get .*user_id/)
  asUser('ann', () => withoutUser(() => t.throws(() => ownerOf(undefined, 'threads.get'))))
})

t.test('[Auth 4] the current user holds over awaits and timers, and is the one before it afterwards', async (t) => {
  t.equal(currentUserId(), null)
  await asUser('ann', async () => {
    await sleep(1)
    t.equal(currentUserId(), 'ann')
    await asUser('bob', async () => {
      await sleep(1)
      t.equal(currentUserId(), 'bob')
    })
    t.equal(currentUserId(), 'ann')
  })
  t.throws(() =>
    asUser('ann', () => {
      throw new Error('in the handler')
    })
  )
  t.equal(currentUserId(), null)
})

t.test('[Auth 4] what is started without a user has none later, whoever started it', async (t) => {
  const later = asUser('ann', () => withoutUser(() => sleep(1).then(currentUserId)))
  t.equal(await later, null)
})

onEachBackend(
  t,
  '[Auth 4] a run acts for the user of its record, and for no request: not the one that made it, nor one that ends it',
  async (t, backend) => {
    const seen: (string | null)[] = []
    const owners: (string | null)[] = []
    const look = () => void seen.push(currentUserId())
    const agent: Agent = {
      models: () => [],
      async start({ userId }, sink, signal) {
        owners.push(userId)
        look()
        sink.emit({ type: 'delta', messageId: 'm', model: 'x', text: 'word' })
        await sleep(30)
        look()
        await new Promise<void>((resolve) => {
          const onAbort = () => {
            look()
            resolve()
          }
          if (signal.aborted) onAbort()
          else signal.addEventListener('abort', onAbort, { once: true })
        })
      }
    }
    const site = await openSite(t, { agent, config: { database: await databaseSection(t, backend) } })
    const person = await signIn(site)
    const { id } = (await person.get('/api/v1/auth/me')).body as { id: string } // the account's own id
    const thread = await person.thread()
    const first = await person.run(thread, 'one')
    const second = await person.run(thread, 'two', { multitask_strategy: 'enqueue' })
    await until(() => seen.length === 2, 'the first run works')
    await person.post(`${first}/cancel?wait=true`)
    await until(() => seen.length === 5, 'the second run works')
    await person.post(`${second}/cancel?wait=true`)
    t.strictSame(seen, Array(6).fill(null))
    t.strictSame(owners, [id, id])
  }
)

onEachBackend(
  t,
  '[Auth 13] the agent is told the user of the run, and nothing that a client says in its place',
  async (t, backend) => {
    const inputs: AgentInput[] = []
    const agent: Agent = { models: () => [], start: async (input) => void inputs.push(input) }
    const site = await openSite(t, { agent, config: { database: await databaseSection(t, backend) } })
    const person = await signIn(site)
    const id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
    const claim = {
      user_id: 'somebody',
      owner_id: 'somebody',
      is_internal: true,
      langgraph_auth_user_id: 'somebody',
      langgraph_auth_user: { identity: 'somebody', permissions: ['all'] },
      langgraph_auth_permissions: ['all'],
      langgraph_request_id: 'r',
      thread_ts: '1',
      checkpoint_ns: 'other',
      __pregel_task_id: 'task',
      __anything: 1
    }
    const given = {
      context: { ...claim, tone: 'dry' },
      config: { configurable: claim, context: claim, metadata: claim },
      metadata: { ...claim, mood: 'calm' }
    }
    const thread = textIn(
      (await person.post('/api/threads', { metadata: { ...claim, mood: 'calm' } })).body,
      'thread_id'
    )
    await person.ask('PATCH', `/api/threads/${thread}`, { body: { metadata: claim } })
    const entrances = ['wait', 'stream', ''].flatMap((how) => [
      [`/api/threads/${thread}/runs/${how}`, given] as const,
      [
        `/api/runs/${how}`,
        { ...given, config: { ...given.config, configurable: { ...claim, thread_id: thread } } }
      ] as const
    ])
    for (const [entrance, body] of entrances) {
      const path = entrance.replace(/\/$/, '')
      const started = inputs.length
      await person.post(path, asked('hello', { ...body, multitask_strategy: 'enqueue' }))
      await until(() => inputs.length > started, `the run of ${path}`)
      const { thread_id: _, ...context } = inputs.at(-1)!.context
      t.strictSame([inputs.at(-1)?.userId, context], [id, { tone: 'dry' }], path)
    }
    const [run] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    t.notMatch(JSON.stringify(run), /somebody|langgraph_|__|checkpoint_ns/, 'nor is it kept with the run')
    const { metadata } = (await person.get(`/api/threads/${thread}`)).body as { metadata: object } // a thread record
    t.strictSame(metadata, { mood: 'calm', graph_id: 'lead_agent', assistant_id: 'lead_agent' }, 'nor with the thread')
    t.same((await person.post('/api/threads/search', { metadata: { user_id: 'somebody' } })).body, [])
  }
)
