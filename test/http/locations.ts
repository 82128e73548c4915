// Where an answer that was cut goes on: every one that takes long says so in its head, and who follows it gets the rest.
import t from 'tap'
import type { Store } from '../../lib/store/store.ts'
import { asked, listIn, openSite, type Person, signIn } from '../fixtures/gateway.ts'
import type { Stream } from '../fixtures/stream.ts'

const WORDS = '/demo deltas=5 rate=0'

/** Follows a stream's Location as clients do: below /api, with the last id and nothing else. */
function follow(person: Person, stream: Stream, last: string | null): Promise<Stream> {
  const location = stream.headers.get('location') ?? 'none'
  return person.open('GET', `/api${location}`, last === null ? {} : { headers: { 'last-event-id': last } })
}

t.test('every stream says where it goes on, with its filter in it, and there it goes on', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const path = await person.run(thread, WORDS)
  const modes = asked(WORDS, { stream_mode: ['custom', 'values'] })
  const streams: Readonly<Record<string, () => Promise<Stream>>> = {
    'POST runs/stream': () => person.open('POST', `/api/threads/${thread}/runs/stream`, { body: modes }),
    'POST runs/stream, without a thread': () => person.open('POST', '/api/runs/stream', { body: modes }),
    'GET stream': () => person.open('GET', `${path}/stream?stream_mode=custom&stream_mode=messages-tuple`),
    'GET stream, a JSON list': () => person.open('GET', `${path}/stream?stream_mode=["custom","messages-tuple"]`),
    'GET stream, of a client that repeats its query': () =>
      person.open('GET', `${path}/stream?stream_mode=messages-tuple&stream_mode=custom&stream_mode=messages-tuple`),
    'GET join': () => person.open('GET', `${path}/join?stream_mode=custom,messages-tuple`),
    'POST stream': () => person.open('POST', `${path}/stream?stream_mode=custom,messages-tuple`),
    'GET stream, all modes of the run': () => person.join(path)
  }
  await (await person.join(path)).whole()
  for (const [name, open] of Object.entries(streams)) {
    const stream = await open()
    const frames = await stream.whole()
    t.match(stream.headers.get('location'), /^\/threads\/[^/]+\/runs\/[^/]+\/stream(\?|$)/, name)
    t.strictSame(await (await follow(person, stream, null)).whole(), frames, `${name}: from the beginning`)
    const rest = await follow(person, stream, frames[0]!.id)
    t.strictSame(await rest.whole(), frames.slice(1), `${name}: behind the first frame`)
    t.equal(rest.headers.get('location'), stream.headers.get('location'), `${name}: it says the same again`)
  }
})

t.test('a snapshot that was cut before its first frame is a snapshot again', async (t) => {
  const person = await signIn(await openSite(t))
  const path = await person.run(await person.thread(), WORDS)
  await (await person.join(path)).whole()
  const stream = await person.open('GET', `${path}/stream?mode=snapshot`)
  const frames = await stream.whole()
  t.strictSame(await (await follow(person, stream, null)).whole(), frames)
})

t.test('who waits for a run is told where the answer is, and gets it there as JSON', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const first = await person.post(`/api/threads/${thread}/runs/wait`, asked(WORDS))
  const path = first.headers.get('content-location') ?? ''
  const answers = [
    first,
    await person.post('/api/runs/wait', asked(WORDS)),
    await person.get(`${path}/join`, { headers: { accept: 'application/json' } })
  ]
  for (const answer of answers) {
    const location = answer.headers.get('location') ?? ''
    t.match(location, /^\/threads\/[^/]+\/runs\/[^/]+\/join$/)
    const again = await person.get(`/api${location}`)
    t.match(again.headers.get('content-type'), 'application/json')
    t.strictSame(again.body, answer.body)
    t.equal(listIn(again.body, 'messages').length, 2)
  }
})

t.test('a join is a stream for who names one in Accept, in any case; a weight of 0 refuses it', async (t) => {
  const person = await signIn(await openSite(t))
  const path = await person.run(await person.thread(), WORDS)
  await (await person.join(path)).whole()
  const typeFor = async (accept: string) => {
    const { headers } = await person.open('GET', `${path}/join`, { headers: { accept } })
    return headers.get('content-type')?.split(';')[0]
  }
  for (const accept of ['text/event-stream', 'Text/Event-Stream', 'application/json, TEXT/EVENT-STREAM; q=0.1'])
    t.equal(await typeFor(accept), 'text/event-stream', accept)
  for (const accept of [
    'application/json',
    '*/*',
    'application/json, text/event-stream;q=0',
    'text/event-stream; Q=0.0'
  ])
    t.equal(await typeFor(accept), 'application/json', accept)
})

t.test('a stream ends also when the set-up of its run fails [Events 8]', async (t) => {
  let isBroken = false
  const behind = (store: Store): Store => ({
    ...store,
    checkpoints: {
      ...store.checkpoints,
      load: (...args) => (isBroken ? Promise.reject(new Error('unreadable')) : store.checkpoints.load(...args))
    }
  })
  const person = await signIn(await openSite(t, { behind }))
  const thread = await person.thread()
  isBroken = true
  const frames = await (await person.stream(thread, WORDS)).whole()
  t.strictSame(
    frames.map(({ event }) => event).filter((event) => event !== 'metadata'),
    ['error', 'end']
  )
})
