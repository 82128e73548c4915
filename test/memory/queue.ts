// The queue before the memory: who waits, for whom, and what a failing model costs.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Paths } from '../../lib/files/paths.ts'
import { Memories } from '../../lib/memory/memories.ts'
import { type Conversation, MemoryQueue } from '../../lib/memory/queue.ts'
import type { Message } from '../../lib/base/types.ts'

type Ask = (question: { user: string }, signal: AbortSignal) => Promise<string>

function open(t: Test, ask: Ask, debounceMs = 60_000) {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-memory-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const memories = new Memories(new Paths(home), { storagePath: '' })
  const failed: string[] = []
  const queue = new MemoryQueue(memories, {
    debounceMs,
    maxFacts: 100,
    threshold: 0.5,
    ask: (_userId, question, signal) => ask(question, signal),
    onFailed: (_error, threadId) => failed.push(threadId)
  })
  return { memories, queue, failed }
}

function talk(userId: string, threadId: string, words: string): Conversation {
  const message = {
    type: 'human',
    id: 'h',
    content: words,
    additional_kwargs: {},
    response_metadata: {},
    name: null
  } as const
  return { userId, agentName: null, threadId, messages: [message satisfies Message] }
}

/** A model that learns one fact: the user's own words. */
const learns: Ask = async ({ user }) => {
  const content = /User: (.*)$/m.exec(user)?.[1] ?? ''
  return JSON.stringify({ newFacts: [{ content, confidence: 1 }] })
}

t.test('a conversation is read once, in its newest state, after a pause', async (t) => {
  const asked: string[] = []
  const { queue, memories } = open(t, (question, signal) => {
    asked.push(question.user)
    return learns(question, signal)
  })
  queue.add(talk('one', 't1', 'first'))
  queue.add(talk('one', 't1', 'second'))
  t.equal(queue.size, 1)
  await queue.flush(10_000)
  t.equal(asked.length, 1)
  t.same(
    (await memories.read({ userId: 'one', agentName: null })).facts.map(({ content, source }) => [content, source]),
    [['second', 't1']]
  )
  t.equal(queue.size, 0)
})

t.test('turns that come while a conversation waits are read together with it', async (t) => {
  const asked: string[] = []
  const { queue } = open(t, (question, signal) => {
    asked.push(question.user)
    return learns(question, signal)
  })
  for (const [n, words] of ['tea', 'gin'].entries()) {
    const { messages, ...whose } = talk('one', 't1', words)
    queue.add({ ...whose, messages: messages.map((message) => ({ ...message, id: `h${n}` })) })
  }
  await queue.flush(10_000)
  t.equal(asked.length, 1)
  t.match(asked[0], /User: tea\n\nUser: gin$/)
})

t.test('[Isolation] ten users in one thread: each memory has its own words and nobody else’s', async (t) => {
  const { queue, memories } = open(t, learns)
  for (let n = 0; n < 10; n++) queue.add(talk(`user-${n}`, 'shared', `words of ${n}`))
  await queue.flush(10_000)
  for (let n = 0; n < 10; n++) {
    const { facts } = await memories.read({ userId: `user-${n}`, agentName: null })
    t.same(
      facts.map(({ content }) => content),
      [`words of ${n}`]
    )
  }
})

t.test('the pause ends by itself', async (t) => {
  const read = withResolvers()
  const { queue } = open(
    t,
    async (question, signal) => {
      read.resolve()
      return learns(question, signal)
    },
    5
  )
  // The queue keeps no process alive; this test does.
  const alive = setInterval(() => {}, 1000)
  queue.add(talk('one', 't1', 'x'))
  await read.promise
  clearInterval(alive)
  await queue.flush(10_000)
})

t.test('a model that fails, or talks nonsense, loses that update and no other', async (t) => {
  const { queue, memories, failed } = open(t, async (question, signal) => {
    if (question.user.includes('bad')) throw new Error('down')
    if (question.user.includes('odd')) return 'no JSON'
    return learns(question, signal)
  })
  queue.add(talk('one', 'bad', 'bad'))
  queue.add(talk('one', 'odd', 'odd'))
  queue.add(talk('one', 'good', 'fine'))
  await queue.flush(10_000)
  t.same(failed.sort(), ['bad', 'odd'])
  t.equal((await memories.read({ userId: 'one', agentName: null })).facts.length, 1)
})

t.test('a deleted thread is not read any more', async (t) => {
  const { queue, memories } = open(t, learns)
  queue.add(talk('one', 'gone', 'x'))
  queue.forget('gone')
  await queue.flush(10_000)
  t.equal((await memories.read({ userId: 'one', agentName: null })).facts.length, 0)
})

t.test('the end of the process does not wait for a model that hangs', async (t) => {
  const { queue, failed } = open(
    t,
    (_question, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  )
  queue.add(talk('one', 't1', 'x'))
  await queue.flush(20)
  t.same(failed, ['t1'])
  queue.add(talk('one', 't2', 'x'))
  t.equal(queue.size, 0, 'and takes nothing new')
})

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
