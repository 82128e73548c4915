// Obligations of AssistantReads and the ops of assistants.
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../lib/store/store.ts'
import type { Assistant } from '../../lib/base/types.ts'
import { durableRules, HOSTILE_TEXTS, member, type Open, refuses, rules, time, userArgument, write } from './harness.ts'

const MAX = 100
const KEEP = 100

export function anAssistant(set: Partial<Assistant> = {}): Assistant {
  return {
    assistant_id: randomUUID(),
    user_id: 'ann',
    version: 1,
    graph_id: 'agent',
    name: 'Poet',
    description: null,
    config: { configurable: { model_name: 'main' } },
    context: { instructions: 'Answer in verse.' },
    metadata: { team: 'red' },
    created_at: time(0),
    updated_at: time(0),
    ...set
  }
}

async function add(store: Store, set: Partial<Assistant> = {}): Promise<Assistant> {
  const made = await write(store, { name: 'assistant.create', assistant: anAssistant(set), max: MAX })
  if (made.outcome !== 'there' || !made.created) throw new Error(`the assistant was not created: ${made.outcome}`)
  return made.assistant
}

export function assistantStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)

  test('an assistant is found field for field, with any text in it [Store 9]', async (t, store) => {
    for (const [what, text] of Object.entries(HOSTILE_TEXTS)) {
      const given = { name: text, description: text, config: member(text.slice(0, 50), text), context: { text } }
      const assistant = await add(store, { ...given, metadata: { list: [text, null, 1.5, { deep: text }] } })
      t.strictSame(await store.assistants.get(assistant.assistant_id, 'ann'), assistant, what)
    }
    t.equal(await store.assistants.get('nobody', 'ann'), null)
  })

  test('an assistant that is there is answered, unless it is of somebody else [Store 1]', async (t, store) => {
    const assistant = await add(store)
    const again = (set: Partial<Assistant>) =>
      write(store, { name: 'assistant.create', assistant: { ...assistant, name: 'Other', ...set }, max: MAX })
    t.strictSame(await again({}), { outcome: 'there', assistant, created: false })
    t.strictSame(await again({ user_id: 'ben' }), { outcome: 'taken' })
    t.strictSame(await store.assistants.get(assistant.assistant_id, null), assistant)
  })

  test('assistants are listed newest first, each user his own and those of nobody [Auth 7]', async (t, store) => {
    const ids = [3, 1, 2].map((second) => ({ created_at: time(second), assistant_id: `a${second}` }))
    for (const set of ids) await add(store, set)
    await add(store, { user_id: null, created_at: time(0), assistant_id: 'shared' })
    const listed = async (user: string | null) =>
      (await store.assistants.list(user)).map(({ assistant_id }) => assistant_id)
    t.strictSame(await listed('ann'), ['a3', 'a2', 'a1', 'shared'])
    t.strictSame(await listed('ben'), ['shared'])
    const { assistant_id } = await add(store, { user_id: 'cat' })
    for (const method of ['get', 'versions'] as const)
      await userArgument(t, `assistants.${method}`, {
        mine: 'cat',
        other: 'ben',
        read: async (user) => [(await store.assistants[method](assistant_id, user)) ?? []].flat().length
      })
  })

  test('an update makes a version and keeps what it leaves out; keys of metadata are added', async (t, store) => {
    const assistant = await add(store)
    const { assistant_id } = assistant
    const set = { name: 'Critic', metadata: { mood: 'grim' } }
    const updated = await write(store, {
      name: 'assistant.update',
      assistant_id,
      set,
      keep: KEEP,
      user: 'ann',
      now: time(5)
    })
    const after = { ...assistant, name: 'Critic', metadata: { team: 'red', mood: 'grim' }, version: 2 }
    t.strictSame(updated, { ...after, updated_at: time(5) })
    t.strictSame(await store.assistants.get(assistant_id, 'ann'), updated)
    const { user_id, updated_at, ...first } = assistant
    const { user_id: _, updated_at: __, ...second } = { ...after, created_at: time(5) }
    t.strictSame(await store.assistants.versions(assistant_id, 'ann'), [second, first])
  })

  test('a version is put in force again, and the next one has a number of its own', async (t, store) => {
    const { assistant_id } = await add(store)
    const update = (name: string) =>
      write(store, {
        name: 'assistant.update',
        assistant_id,
        set: { name, context: {} },
        keep: KEEP,
        user: 'ann',
        now: time(5)
      })
    const choose = (version: number) =>
      write(store, { name: 'assistant.setVersion', assistant_id, version, user: 'ann', now: time(6) })
    await update('Second')
    t.match(await choose(1), { version: 1, name: 'Poet', context: { instructions: String }, updated_at: time(6) })
    t.match(await store.assistants.get(assistant_id, 'ann'), { version: 1, name: 'Poet' })
    t.match(await update('Third'), { version: 3, name: 'Third' })
    t.equal(await choose(9), null)
    const versions = await store.assistants.versions(assistant_id, 'ann')
    t.strictSame(
      versions.map(({ version, name }) => [version, name]),
      [
        [3, 'Third'],
        [2, 'Second'],
        [1, 'Poet']
      ]
    )
  })

  test('of the versions the newest stay, as many as are wanted', async (t, store) => {
    const { assistant_id } = await add(store)
    for (let at = 0; at < 4; at++)
      await write(store, { name: 'assistant.update', assistant_id, set: {}, keep: 2, user: 'ann', now: time(at) })
    const versions = await store.assistants.versions(assistant_id, 'ann')
    t.strictSame(
      versions.map(({ version }) => version),
      [5, 4]
    )
  })

  test('an assistant is removed with its versions, and its id is free again', async (t, store) => {
    const { assistant_id } = await add(store)
    t.equal(await write(store, { name: 'assistant.remove', assistant_id, user: 'ann' }), true)
    t.equal(await write(store, { name: 'assistant.remove', assistant_id, user: 'ann' }), false)
    t.equal(await store.assistants.get(assistant_id, null), null)
    t.strictSame(await store.assistants.versions(assistant_id, null), [])
    const again = await add(store, { assistant_id })
    t.equal(again.version, 1)
    t.equal((await store.assistants.versions(assistant_id, 'ann')).length, 1)
  })

  test('a user has at most as many assistants as he may; those of others do not count', async (t, store) => {
    const create = async (user_id: string) =>
      (await write(store, { name: 'assistant.create', assistant: anAssistant({ user_id }), max: 2 })).outcome
    t.strictSame(
      [await create('ann'), await create('ann'), await create('ann'), await create('ben')],
      ['there', 'there', 'too_many', 'there']
    )
    t.equal((await store.assistants.list('ann')).length, 2)
  })

  test('a group that is refused leaves no assistant behind [Store 2]', async (t, store) => {
    const assistant = anAssistant()
    const [outcome] = await store.apply([
      {
        ops: [
          { name: 'assistant.create', assistant, max: MAX },
          { name: 'checkpoint.put', ...NOWHERE }
        ]
      }
    ])
    t.match(outcome, { ok: false })
    t.equal(await store.assistants.get(assistant.assistant_id, null), null)
    await refuses(t, store, { name: 'checkpoint.put', ...NOWHERE }, 'the op that was to be refused')
  })

  durable('assistants survive a restart', async (t, store, reopen) => {
    const assistant = await add(store)
    const again = await reopen()
    t.strictSame(await again.assistants.list('ann'), [assistant])
    t.equal((await again.assistants.versions(assistant.assistant_id, 'ann')).length, 1)
  })
}

/** Of a thread that there is not. */
const NOWHERE = {
  thread_id: 'nowhere',
  checkpoint_id: 'c',
  parent_checkpoint_id: null,
  run_id: null,
  created_at: time(0),
  metadata: {},
  next: [],
  messages: [],
  channels: {},
  bodies: []
} as const
