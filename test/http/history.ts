// The state of a thread and its history, as those who branch and edit conversations ask for them.
import t from 'tap'
import { onEachBackend, databaseSection } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'

onEachBackend(t, 'a checkpoint that names another thread is refused wherever one can be named', async (t, backend) => {
  const site = await openSite(t, { config: { database: await databaseSection(t, backend) } })
  const person = await signIn(site)
  const [thread, other] = [await person.thread(), await person.thread()]
  const own = textIn((await person.get(`/api/threads/${thread}/state`)).body, 'checkpoint_id')
  const named = (thread_id: string) => ({ checkpoint: { thread_id, checkpoint_ns: '', checkpoint_id: own } })
  const path = `/api/threads/${thread}`
  const stateless = { config: { configurable: { thread_id: thread } } }
  const asking = (thread_id: string) =>
    [
      [`${path}/runs/wait`, asked('hello', named(thread_id))],
      ['/api/runs/wait', asked('hello', { ...stateless, ...named(thread_id) })],
      [`${path}/state`, { values: {}, ...named(thread_id) }],
      [`${path}/state`, { values: {}, checkpoint_id: own, ...named(thread_id) }],
      [`${path}/state/checkpoint`, named(thread_id)],
      [`${path}/history`, { before: { configurable: named(thread_id).checkpoint } }]
    ] as const
  for (const [entrance, body] of asking(other)) {
    const answer = await person.post(entrance, body)
    t.equal(answer.status, 400, `${entrance}: ${answer.text}`)
    t.match(at(answer.body, 'detail'), other)
  }
  t.strictSame(listIn((await person.get(`${path}/runs`)).body), [], 'nothing is begun')
  for (const [entrance, body] of asking(thread)) t.equal((await person.post(entrance, body)).status, 200, entrance)
})
