// Obligations of AliasReads and their op.
import type { Test } from 'tap'
import { type Alias, ALIAS_TEXT_MAX, type Store } from '../../lib/store/store.ts'
import { addEndedRun, addThread, HOSTILE_TEXTS, type Open, rules, time, userArgument, write } from './harness.ts'

const put = (store: Store, alias: Alias, now = time(1)) => write(store, { name: 'alias.put', alias, now })

const aName = (set: Partial<Alias> = {}): Alias => ({
  user_id: 'ann',
  protocol: 'p',
  text: 'chat 1',
  thread_id: 't',
  run_id: null,
  ...set
})

export function aliasStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('a name is whose it was first, in its protocol and of its user', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    await addThread(store, { thread_id: 'u', user_id: 'ann' })
    const first = aName()
    t.strictSame(await put(store, first), first)
    t.strictSame(await put(store, aName({ thread_id: 'u' })), first, 'the second is told')
    const others = [aName({ protocol: 'q', thread_id: 'u' }), aName({ text: 'Chat 1', thread_id: 'u', run_id: 'r' })]
    for (const [i, other] of others.entries()) t.strictSame(await put(store, other, time(2 + i)), other)
    t.strictSame(await store.aliases.get('p', 'chat 1', 'ann'), first)
    t.strictSame(await store.aliases.ofThread('u', 'ann'), others)
    await userArgument(t, 'aliases.get', {
      mine: 'ann',
      other: 'ben',
      read: async (user) => ((await store.aliases.get('p', 'chat 1', user)) ? 1 : 0)
    })
    await userArgument(t, 'aliases.ofThread', {
      mine: 'ann',
      other: 'ben',
      read: async (user) => (await store.aliases.ofThread('t', user)).length
    })
    await addThread(store, { thread_id: 'his', user_id: 'ben' })
    const his = aName({ user_id: 'ben', thread_id: 'his' })
    t.strictSame(await put(store, his), his, 'others have names of their own')
    t.strictSame(await store.aliases.get('p', 'chat 1', 'ann'), first)
  })

  test('of calls at once one has the name, and all are told which', async (t, store) => {
    const threads = Array.from({ length: 10 }, (_, i) => `t${i}`)
    for (const thread_id of threads) await addThread(store, { thread_id, user_id: 'ann' })
    const told = await Promise.all(threads.map((thread_id) => put(store, aName({ thread_id }))))
    t.equal(new Set(told.map((one) => one?.thread_id)).size, 1)
  })

  test('a name of a thread that is not there is none, and goes with its thread or run', async (t, store) => {
    t.equal(await put(store, aName()), null)
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    const { run_id } = await addEndedRun(store, 't')
    await put(store, aName())
    await put(store, aName({ text: 'run 1', run_id }))
    await write(store, { name: 'run.remove', run_id, thread_id: 't', user: 'ann' })
    t.equal(await store.aliases.get('p', 'run 1', 'ann'), null)
    t.ok(await store.aliases.get('p', 'chat 1', 'ann'))
    await write(store, { name: 'thread.remove', thread_id: 't', user: 'ann' })
    t.equal(await store.aliases.get('p', 'chat 1', 'ann'), null)
    await addThread(store, { thread_id: 'u', user_id: 'ann' })
    t.match(await put(store, aName({ thread_id: 'u' })), { thread_id: 'u' }, 'it is free again')
  })

  test('any text is a name, to the byte, up to its bound [Store 9]', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    const texts = [...Object.values(HOSTILE_TEXTS), 'x'.repeat(ALIAS_TEXT_MAX), '\u0000'.repeat(ALIAS_TEXT_MAX)].map(
      (text) => text.slice(0, ALIAS_TEXT_MAX)
    )
    for (const text of new Set(texts.filter((one) => one.isWellFormed()))) {
      await put(store, aName({ text }))
      t.match(await store.aliases.get('p', text, 'ann'), { text })
    }
  })
}
