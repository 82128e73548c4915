// Protocol v2 over WebSockets is exact: whatever is cut, whoever is killed, wherever a tab comes back, each event is seen once and in
// its order.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { ScriptedAgent } from '../fixtures/agent.ts'
import { startChild } from '../fixtures/child.ts'
import { at, listIn, openSite, Person, signIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { scripted } from '../fixtures/model.ts'
import { startPair } from '../fixtures/pair.ts'
import { type HeardEvent, isEnd, openProtocol, Tab, textIn } from '../fixtures/protocol.ts'
import { openProxy } from '../fixtures/proxy.ts'

const said = (content: string) => ({ messages: [{ type: 'human', content }] })
const DELTAS = 1000
const CUTS = 10

/** What who comes after it all is told. */
async function whole(person: Person, thread: string, ends = 1): Promise<HeardEvent[]> {
  const client = await openProtocol(person, thread)
  await client.subscribe()
  await client.untilEnds(ends)
  client.close()
  return client.events
}

function isExact(t: Test, tab: Tab, expected: readonly HeardEvent[], name: string): void {
  t.strictSame(tab.wrong, [], `${name}: nothing twice, nothing out of order`)
  t.strictSame(
    tab.events.map(({ event_id }) => event_id),
    expected.map(({ event_id }) => event_id),
    `${name}: nothing is missing`
  )
  t.equal(tab.events.filter(isEnd).length, 1, `${name}: one end`)
}

t.test('a thousand deltas, ten cuts, two tabs: every event once, in order', { timeout: 120_000 }, async (t) => {
  const agent = new ScriptedAgent()
  const person = await signIn(await openSite(t, { agent }))
  const thread = randomUUID()
  const proxy = await openProxy(t, person.url)
  const tabs = [true, false].map((resumes) => new Tab(person, thread, () => proxy.url, resumes))
  const starter = await openProtocol(person, thread)
  const stage = await agent.stage({ run_id: await starter.start(said('say a thousand words')) })
  const say = (deltas: number) => {
    for (let n = 0; n < deltas; n++) stage.say('word ')
  }
  // Cut by what has come: by a clock a busy machine has all of it before the first cut.
  for (let cut = 1; cut <= CUTS; cut++) {
    const before = tabs.map(({ events, connections }) => ({ events: events.length, connections }))
    say(DELTAS / CUTS / 2)
    const hasCome = (tab: Tab, n: number) => tab.events.length >= before[n]!.events + DELTAS / CUTS / 2
    await until(() => tabs.every(hasCome), `what is said before cut ${cut}`)
    // With these on their way.
    say(DELTAS / CUTS / 2)
    proxy.reset()
    const isBack = (tab: Tab, n: number) => tab.connections > before[n]!.connections
    await until(() => tabs.every(isBack), `both are back after cut ${cut}`)
  }
  stage.finish()
  await until(() => tabs.every(({ hasEnded }) => hasEnded), 'the end')
  const all = await whole(person, thread)
  t.ok(all.length > DELTAS)
  t.equal(textIn(all).split(' ').length - 1, DELTAS)
  for (const [n, tab] of tabs.entries()) {
    t.ok(tab.connections > CUTS, `${tab.connections} connections`)
    isExact(t, tab, all, `tab ${n}`)
    tab.leave()
  }
  starter.close()
})

t.test(
  'the process is killed in the middle: what was told stays true, and the end is told',
  { timeout: 120_000 },
  async (t) => {
    const first = await startChild(t)
    const person = await signIn(first)
    const thread = randomUUID()
    let { url } = first
    const tabs = [true, false].map((resumes) => new Tab(person, thread, () => url, resumes))
    const starter = await openProtocol(person, thread)
    await starter.start(said('/demo deltas=10000 rate=200'))
    await until(() => tabs.every(({ events }) => events.length >= 200), 'it is under way')
    await first.kill()
    const second = await startChild(t, { home: first.home })
    url = second.url
    const after = new Person(second.url, person.cookies)
    await until(() => tabs.every(({ hasEnded }) => hasEnded), 'the end')
    const all = await whole(after, thread)
    const ids = new Set(all.map(({ event_id }) => event_id))
    for (const [n, tab] of tabs.entries()) {
      // What a crash has taken back, two seconds of it at most (streams.unstored_ms), was told under ids that are not given again.
      const kept = tab.events.filter(({ event_id }) => ids.has(event_id))
      const lost = tab.events.filter(({ event_id }) => !ids.has(event_id))
      t.strictSame(
        kept.map(({ event_id }) => event_id),
        [...ids],
        `tab ${n}: nothing is missing, nothing twice`
      )
      t.ok(lost.length < 400, `tab ${n}: ${lost.length} events were taken back`)
      t.equal(new Set(tab.events.map(({ event_id }) => event_id)).size, tab.events.length)
      t.match(
        tab.events.filter(isEnd).map(({ params }) => params.data.event),
        ['failed']
      )
      tab.leave()
    }
  }
)

/** The texts of messages that were said to their end: what a cut has left of one is finished without a reason. */
function finishedTexts(events: readonly HeardEvent[]): string[] {
  const texts: string[] = []
  let text = ''
  for (const { method, params } of events) {
    if (method !== 'messages') continue
    const { event, delta } = params.data
    if (event === 'message-start') text = ''
    if (event === 'content-block-delta') text += at(delta, 'text')
    if (event === 'message-finish' && 'reason' in params.data) texts.push(text)
  }
  return texts
}

t.test(
  'on_restart resume: a graph that is killed in the middle of a superstep ends in success by itself, for both tabs',
  { timeout: 120_000 },
  async (t) => {
    const runtime = { runtime: 'graphs', config: graphsFolder(t, 'newest', { speaking: 'speaking' }) }
    const config = { agent: runtime, runs: { on_restart: 'resume' } }
    const first = await startChild(t, { config })
    const person = await signIn(first)
    const thread = randomUUID()
    let { url } = first
    const tabs = [true, false].map((resumes) => new Tab(person, thread, () => url, resumes))
    const starter = await openProtocol(person, thread)
    await starter.start(said('go on'), { assistant_id: 'speaking' })
    const isHalfway = ({ events }: Tab) => textIn(events).endsWith('in turn 3. this is said')
    await until(() => tabs.every(isHalfway), 'both tabs have half a sentence')
    await first.kill()
    const second = await startChild(t, { config, home: first.home })
    url = second.url
    const after = new Person(second.url, person.cookies)
    await until(() => tabs.every(({ hasEnded }) => hasEnded), 'the end')
    const uncut = Array.from({ length: 10 }, (_, n) => `this is said in turn ${n + 1}. `)
    const { body } = await after.get(`/api/threads/${thread}/state`)
    t.strictSame(
      listIn(body, 'values', 'messages').map((one) => at(one, 'content')),
      ['go on', ...uncut]
    )
    const all = await whole(after, thread)
    t.strictSame(finishedTexts(all), uncut, 'who comes afterwards')
    const ids = new Set(all.map(({ event_id }) => event_id))
    for (const [n, tab] of tabs.entries()) {
      const kept = tab.events.filter(({ event_id }) => ids.has(event_id))
      t.strictSame(
        kept.map(({ event_id }) => event_id),
        [...ids],
        `tab ${n}: nothing is missing, nothing twice`
      )
      t.strictSame(finishedTexts(kept), uncut, `tab ${n}`)
      t.strictSame(
        tab.events.filter(isEnd).map(({ params }) => params.data.event),
        ['completed']
      )
      tab.leave()
    }
    t.ok(textIn(tabs[0]!.events).length > uncut.join('').length, 'a sentence was begun twice')
  }
)

t.test(
  'two processes: a tab on each, and one that changes over: every event once, in order',
  { timeout: 170_000 },
  async (t) => {
    const { a, b, onA } = await startPair(t)
    const thread = await onA.thread()
    let { url } = a
    const tabs = [
      new Tab(onA, thread, () => a.url, true),
      new Tab(onA, thread, () => b.url, true),
      new Tab(onA, thread, () => b.url, false),
      new Tab(onA, thread, () => url, true)
    ]
    const proxy = await openProxy(t, a.url)
    const changing = new Tab(onA, thread, () => (url === a.url ? proxy.url : b.url), true)
    await until(() => [...tabs, changing].every(({ connections }) => connections > 0), 'all tabs are open')
    const starter = await openProtocol(onA, thread)
    await starter.start(said(scripted({ deltas: 400, rate: 100 })))
    await until(() => changing.events.length > 100, 'it is under way')
    url = b.url
    proxy.down()
    const everybody = [...tabs, changing]
    await until(() => everybody.every(({ hasEnded }) => hasEnded), 'the end')
    const all = await whole(onA, thread)
    t.strictSame(
      await whole(new Person(b.url, onA.cookies), thread),
      all,
      'both processes tell the same, to the letter'
    )
    for (const [n, tab] of everybody.entries()) {
      isExact(t, tab, all, `tab ${n}`)
      tab.leave()
    }
  }
)
