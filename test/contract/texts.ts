// Obligations of every write: texts come back as they were given, in whatever column they lie.
import type { Test } from 'tap'
import {
  addEndedRun,
  addRun,
  addThread,
  aSettlement,
  aUser,
  HOSTILE_TEXTS,
  type Open,
  sharedRules,
  time,
  write
} from './harness.ts'

export function textContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('any well-formed text comes back from every column as it was given [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
      const asked = { first_human_message: text, metadata: { text }, kwargs: { text }, idempotency_key: null }
      const run = await addRun(store, thread_id, asked)
      const told = { error: text, last_ai_message: text, first_human_message: null }
      await write(store, aSettlement(run, told))
      const patch = { name: 'thread.patch', thread_id, metadata: { text }, user: null, now: time(1) } as const
      await write(store, patch)
      const found = await store.runs.get(run.run_id, null)
      const columns = [
        found?.first_human_message,
        found?.error,
        found?.last_ai_message,
        found?.metadata.text,
        found?.kwargs.text
      ]
      t.ok(
        columns.every((column) => column === text),
        `${name}, in a run`
      )
      t.ok((await store.threads.get(thread_id, null))?.metadata.text === text, `${name}, in a thread`)
    }
  })

  test('any well-formed title and email comes back as it was given [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
      const short = Array.from(text).slice(0, 50).join('')
      if (!short) continue
      await addEndedRun(store, thread_id, { title: short })
      t.equal((await store.threads.get(thread_id, null))?.display_name, short, name)
      const user = aUser({ email: `${short}@example.com` })
      await write(store, { name: 'user.create', user })
      t.equal((await store.users.byEmail(user.email))?.id, user.id, name)
    }
  })

  test('what a caller names by itself may be as long as routes let it, of whatever characters [Store 9]', async (t, store) => {
    // A database that has to escape some takes five times as much for them.
    for (const unit of ['\u0000', '\u001a', 'ä']) {
      const named = unit.repeat(64)
      const { thread_id } = await addThread(store)
      const run = await addRun(store, thread_id, { follow_up_to_run_id: named })
      t.equal((await store.runs.get(run.run_id, null))?.follow_up_to_run_id, named)
      const user = aUser()
      await write(store, { name: 'user.create', user })
      const sid = unit.repeat(300)
      const session = {
        ...{
          digest: `${unit.codePointAt(0)}`.padStart(64, '0'),
          user_id: user.id,
          provider: 'p',
          subject: unit.repeat(128),
          sid
        },
        ...{ tokens: 't', checked: 0, expires: 9 }
      }
      await write(store, { name: 'session.attach', session, now: 1 })
      t.strictSame(await store.users.providerSessions('p', session.subject, sid), [session])
    }
  })
}
