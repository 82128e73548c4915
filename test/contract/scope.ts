// Obligations of every write that is filtered by a user.
import type { Test } from 'tap'
import { anApiToken } from './api-tokens.ts'
import { anAssistant } from './assistants.ts'
import { aCron } from './crons.ts'
import { anItem } from './items.ts'
import type { Owner } from '../../lib/base/scope.ts'
import { type OpName, OWNED_OPS, type Result, type Store } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import { addEndedRun, addEvents, addThread, anEvent, type Open, rules, time, write, messageCount } from './harness.ts'

interface Place {
  readonly store: Store
  readonly thread_id: string
  readonly run: Run
  readonly feedback_id: string
  readonly token_id: string
  readonly cron_id: string
  readonly assistant_id: string
}

/** A thread of ann with everything in it that an op could take away. */
async function furnished(store: Store): Promise<Place> {
  const { thread_id } = await addThread(store, { user_id: 'ann' })
  const run = await addEndedRun(store, thread_id)
  await addEvents(store, run, [anEvent(0)])
  const feedback_id = `feedback of ${run.run_id}`
  const { run_id } = run
  const given = { message_id: null, rating: 1, comment: null, created_at: time(1) } as const
  const feedback = { feedback_id, run_id, thread_id, user_id: 'ann', ...given }
  if (store.feedback) await write(store, { name: 'feedback.upsert', feedback })
  const token = anApiToken({ user_id: 'ann' })
  await write(store, { name: 'apiToken.create', token, max: 100 })
  const assistant = anAssistant({ user_id: 'ann' })
  await write(store, { name: 'assistant.create', assistant, max: 100 })
  await write(store, {
    name: 'assistant.update',
    assistant_id: assistant.assistant_id,
    set: {},
    keep: 9,
    user: null,
    now: time(1)
  })
  const cron = aCron({ user_id: 'ann' })
  await write(store, { name: 'cron.create', cron, max: 100 })
  await write(store, { name: 'item.put', item: anItem({ user_id: 'ann' }), now: time(1), max: { items: 0, bytes: 0 } })
  const ids = { token_id: token.token_id, cron_id: cron.cron_id, assistant_id: assistant.assistant_id }
  return { store, thread_id, run, feedback_id, ...ids }
}

/** The ops by name, for a user. */
function ops({ thread_id, run: { run_id }, feedback_id, token_id, cron_id, assistant_id }: Place, user: Owner) {
  return {
    'thread.patch': { name: 'thread.patch', thread_id, metadata: { touched: true }, now: time(2), user },
    'thread.remove': { name: 'thread.remove', thread_id, user },
    'cron.update': { name: 'cron.update', cron_id, set: { enabled: false }, user, now: time(2) },
    'cron.remove': { name: 'cron.remove', cron_id, user },
    'item.remove': { name: 'item.remove', namespace: anItem().namespace, key: anItem().key, user },
    'run.remove': { name: 'run.remove', thread_id, run_id, user },
    'apiToken.remove': { name: 'apiToken.remove', token_id, user },
    'assistant.update': { name: 'assistant.update', assistant_id, set: { name: 'B' }, keep: 9, user, now: time(2) },
    'assistant.setVersion': { name: 'assistant.setVersion', assistant_id, version: 1, user, now: time(2) },
    'assistant.remove': { name: 'assistant.remove', assistant_id, user },
    'feedback.remove': { name: 'feedback.remove', thread_id, run_id, user },
    'feedback.removeById': { name: 'feedback.removeById', feedback_id, thread_id, run_id, user }
  } as const
}
type Owned = keyof ReturnType<typeof ops>

const isDone = (result: Result<Owned>): boolean => result !== null && result !== false

/** All that an op could change, as a text. */
async function stateOf({ store, thread_id, run }: Place): Promise<string> {
  return JSON.stringify([
    await store.threads.get(thread_id, null),
    await store.runs.list(thread_id, { limit: 9, offset: 0 }, null),
    await messageCount(store, thread_id, null),
    await store.apiTokens.list(null),
    await store.assistants.list(null),
    await store.crons.list(null),
    await store.items.search({ prefix: [], limit: 100, offset: 0 }, null),
    (await store.feedback?.list(thread_id, run.run_id, null)) ?? null
  ])
}

export async function scopeContract(t: Test, open: Open): Promise<void> {
  const test = rules(t, open)

  test('every op that is filtered by a user is looked at here', async (t, store) => {
    const names: OpName[] = Object.keys(ops(await furnished(store), null)) as Owned[] // an object's own keys
    t.strictSame(names.toSorted(), [...OWNED_OPS].toSorted())
  })

  test('writes take a user, who must own what they change, or null for everybody [Store 1]', async (t, store) => {
    for (const name of [...OWNED_OPS] as Owned[]) {
      if (name.startsWith('feedback.') && !store.feedback) continue
      for (const user of ['bob', 'ann', null]) {
        const place = await furnished(store)
        const before = await stateOf(place)
        const result = await write(store, ops(place, user)[name])
        t.equal(isDone(result), user !== 'bob', `${name} as ${user}`)
        t.equal((await stateOf(place)) === before, user === 'bob', `${name} as ${user}`)
      }
    }
  })
}
