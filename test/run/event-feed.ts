// What protocol v2 makes of a run's log is made once, for readers of one moment and for those a little behind.
import t from 'tap'
import { sseEncoding, webSocketEncoding } from '../../lib/langgraph/protocol/encoding.ts'
import { type Encoding, EventFeed } from '../../lib/langgraph/protocol/feed.ts'
import { eventFilter } from '../../lib/langgraph/protocol/subscription.ts'
import { steady, Subscriptions } from '../../lib/langgraph/protocol/subscriptions.ts'
import { FRAMES_MAX, PARTS_MAX, seqOf } from '../../lib/langgraph/protocol/event.ts'
import { Kind, type LogBounds } from '../../lib/run/log/frame.ts'
import { RunLog } from '../../lib/run/log/run-log.ts'
import { aLog, aStoredRun, appendState, commit, HandStore } from '../fixtures/run-log.ts'

function feed(log: RunLog, encoding: Encoding = sseEncoding, channels = ['messages']): EventFeed {
  const selection = steady(eventFilter({ channels }))
  return new EventFeed(log.run, log, encoding, () => selection)
}

const methodsIn = (pieces: readonly Buffer[]) =>
  Buffer.concat(pieces)
    .toString()
    .split('\n')
    .flatMap((line) => (line.startsWith('event: ') ? [line.slice('event: '.length)] : []))

function say(log: RunLog, text: string): void {
  log.append(Kind.messages, 'messages', JSON.stringify([{ type: 'AIMessageChunk', id: 'm1', content: text }, {}]))
}

/** All that a feed has now, piece by piece. */
function piecesOf(reader: EventFeed): Buffer[] {
  const pieces: Buffer[] = []
  for (let fed = reader.next(null); typeof fed !== 'string'; fed = reader.next(null)) pieces.push(fed.bytes)
  return pieces
}

t.test('a reader who is behind is given the bytes that were made for those before it', (t) => {
  const log = aLog({ windowBytes: 1 << 20 })
  const fast = feed(log)
  const made: Buffer[] = []
  for (let turn = 0; turn < 20; turn++) {
    say(log, `word ${turn} `)
    say(log, 'and more ')
    made.push(...piecesOf(fast))
  }
  const late = piecesOf(feed(log))
  t.equal(made.length, 20)
  t.equal(late.length, 20)
  t.ok(late.every((bytes, i) => bytes === made[i]))
  const text = Buffer.concat(late).toString()
  for (let turn = 0; turn < 20; turn++) t.equal(text.split(`word ${turn} `).length, 2, `word ${turn} comes once`)
  t.equal(piecesOf(feed(log, webSocketEncoding)).length, 20, 'another transport translates nothing anew')
  t.end()
})

t.test('of what was made the oldest goes, and who comes to it then reads the same', (t) => {
  const log = aLog({ windowBytes: 1 << 26 })
  const fast = feed(log)
  const made: Buffer[] = []
  for (let turn = 0; turn < 12; turn++) {
    say(log, `${turn}${'x'.repeat(1 << 20)}`)
    made.push(...piecesOf(fast))
  }
  const late = piecesOf(feed(log))
  t.not(late[0], made[0], 'made anew')
  t.ok(Buffer.concat(late).equals(Buffer.concat(made)))
  t.end()
})

t.test('readers that want different channels share what was made, but for states that nobody had wanted', (t) => {
  const log = aLog({ windowBytes: 1 << 20 })
  for (let n = 0; n < 10; n++) say(log, `word ${n} `)
  const parsed = t.capture(JSON, 'parse', JSON.parse)
  const of = (...channels: string[]) => methodsIn(piecesOf(feed(log, sseEncoding, channels)))
  t.strictSame(of('lifecycle'), [])
  t.equal(parsed().length, 10, 'each frame is read once')
  // A message begins, its block begins, then ten pieces.
  t.equal(of('messages').length, 12)
  t.equal(of('messages', 'values', 'lifecycle').length, 12)
  t.equal(of('updates', 'tasks').length, 0)
  t.equal(parsed().length, 0, 'and then by nobody')
  appendState(log, 'here')
  t.equal(of('lifecycle', 'messages').length, 12)
  t.strictSame(of('values'), ['values'], 'who wants states is told them, also behind one who does not')
  parsed()
  t.equal(of('messages', 'lifecycle').length, 12)
  t.strictSame(of('values'), ['values'])
  t.equal(parsed().length, 0, 'a state that somebody has wanted serves all')
  t.end()
})

t.test(
  'a run has its end, however much ends with it, and under the same id when nothing else is left of it',
  async (t) => {
    const store = new HandStore()
    const log = aLog({ windowBytes: 1 << 20, store })
    for (let n = 0; n < 600; n++) log.append(Kind.custom, `custom|task:${n}`, '{}')
    log.close({ ...log.run, status: 'success', last_cursor: log.lastCursor })
    const idsIn = (pieces: readonly Buffer[]) => [
      ...Buffer.concat(pieces)
        .toString()
        .matchAll(/^id: (.*)$/gm)
    ]
    const told = idsIn(piecesOf(feed(log, sseEncoding, ['lifecycle']))).map(([, id]) => id!)
    t.equal(told.length, 600 + 600 + 1)
    t.equal(new Set(told).size, told.length)
    const seqs = told.map((id) => Number(id.split('-')[0]))
    t.ok(seqs.every((seq, i) => i === 0 || seq > seqs[i - 1]!))
    const swept = await RunLog.ended(log.run, store)
    const late = feed(swept, sseEncoding, ['lifecycle'])
    t.equal(late.next(null), 'behind')
    const loaded = await late.load()
    const pieces: Buffer[] = []
    for (let fed = late.next(loaded); typeof fed !== 'string'; fed = late.next(loaded)) pieces.push(fed.bytes)
    t.equal(idsIn(pieces).at(-1)?.[1], told.at(-1))
  }
)

t.test('pictures and sounds, whoever has put them into words, are told in those of the protocol', (t) => {
  const log = aLog({ windowBytes: 1 << 20 })
  const content = [
    { type: 'image_url', image_url: 'https://example.com/a.png' },
    { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
    { type: 'file', mimeType: 'text/plain', data: 'AAAA' },
    { type: 'image_url' },
    { type: 'input_audio', input_audio: 7 }
  ]
  log.append(Kind.messages, 'messages', JSON.stringify([{ type: 'AIMessageChunk', id: 'm1', content }, {}]))
  const told = [
    ...Buffer.concat(piecesOf(feed(log)))
      .toString()
      .matchAll(/^data: (.*)$/gm)
  ]
  const blocks = told.map(([, json]) => JSON.parse(json!).params.data)
  t.strictSame(
    blocks.filter(({ event }) => event === 'content-block-finish').map((one) => one.content),
    [
      { type: 'image', url: 'https://example.com/a.png' },
      { type: 'audio', data: 'AAAA', mime_type: 'audio/mp3' },
      { mime_type: 'text/plain', ...content[2] }
    ]
  )
  t.end()
})

/** Numbers of the root's events that a client is told, which claims to have been told that one by that attempt. */
function toldAfter(log: RunLog, n: number, epoch: number | null): () => Promise<number[]> {
  const subscriptions = new Subscriptions()
  const { ordinal } = log.run
  subscriptions.add('', { channels: ['lifecycle', 'custom'] }, -1, { seq: seqOf(ordinal, n, 0), epoch })
  subscriptions.onLog(log.run, log)
  const reader = new EventFeed(log.run, log, sseEncoding, (seq) => subscriptions.selectionAfter(seq))
  return async () => {
    let text = ''
    for (let fed = reader.next(null); fed !== 'tail' && fed !== 'end'; ) {
      if (typeof fed !== 'string') text += fed.bytes.toString()
      fed = reader.next(fed === 'behind' ? await reader.load() : null)
    }
    return [...text.matchAll(/"seq":(\d+)/g)].map(([, seq]) => (Number(seq) - seqOf(ordinal, 0, 0)) / seqOf(0, 1, 0))
  }
}

function attempt(epoch: number, frames: number, store = new HandStore(), head = 0): RunLog {
  const log = aLog({ epoch, head, store, windowBytes: 1 << 20 })
  log.append(Kind.metadata, 'metadata', '{}')
  for (let n = 1; n < frames; n++) log.append(Kind.custom, 'custom', String(n))
  return log
}

t.test('who was told of an attempt that was lost whole is told all of the one after it', async (t) => {
  const after = attempt(9, 4)
  t.strictSame(await toldAfter(after, 0, 7)(), [0, 1, 2, 3], 'also of what has the same number')
  t.strictSame(await toldAfter(after, 2, 7)(), [0, 1, 2, 3])
  t.strictSame(await toldAfter(after, 0, 9)(), [1, 2, 3], 'of this attempt nothing twice')
  t.strictSame(await toldAfter(after, 2, null)(), [3], 'a number names no attempt')
  t.strictSame(await toldAfter(after, 4, null)(), [0, 1, 2, 3], 'but may be of none that there is')

  const store = new HandStore()
  const replica = await RunLog.replica(aStoredRun({ status: 'running', attempts: 1 }), store)
  const [lost, same] = [toldAfter(replica, 1, 7), toldAfter(replica, 1, 9)]
  t.strictSame([await lost(), await same()], [[], []], 'elsewhere nothing of it is stored yet')
  store.stored.push(...commit(attempt(9, 4)))
  await replica.advance()
  t.strictSame(await lost(), [0, 1, 2, 3])
  t.strictSame(await same(), [2, 3])
})

t.test('who says only a number is told all, where an attempt was lost whole', async (t) => {
  const all = [0, 1, 2, 3]
  const options = { windowBytes: 1 << 20, eventBytes: 0 }
  const begun = (attempts: number) => {
    const log = RunLog.begin(aStoredRun({ attempts }), new HandStore(), options, { epochs: [], head: 0 }, undefined, 9)
    log.append(Kind.metadata, 'metadata', '{}')
    for (let n = 1; n < 4; n++) log.append(Kind.custom, 'custom', String(n))
    return log
  }
  const stored = (attempts: number) => {
    const log = begun(attempts)
    commit(log)
    return log
  }
  t.strictSame(await toldAfter(stored(0), 2, null)(), all, 'where it waited before somebody was shown its first frame')
  t.strictSame(await toldAfter(stored(1), 2, null)(), all, 'where it goes on')
  t.strictSame(await toldAfter(stored(1), 2, 9)(), [3], 'an id says of which attempt it is')

  const store = new HandStore()
  store.stored.push(...commit(begun(1)))
  const elsewhere = async (attempts: number) => RunLog.replica(aStoredRun({ status: 'running', attempts }), store)
  t.strictSame(await toldAfter(await elsewhere(1), 2, null)(), [3])
  t.strictSame(await toldAfter(await elsewhere(2), 2, null)(), all, 'on another process')
  const end = FRAMES_MAX - 1 / PARTS_MAX
  const ended = async (attempts: number) =>
    RunLog.ended(aStoredRun({ status: 'success', last_cursor: '9-3', attempts }), store)
  t.strictSame(await toldAfter(await ended(2), 2, null)(), [...all, end], 'later')
  t.strictSame(await toldAfter(await ended(2), end, null)(), [], 'an end is stored before it is sent')
  t.strictSame(await toldAfter(await ended(0), 0, null)(), [...all, end], 'it waited, perhaps elsewhere, and was ended')
})

t.test(
  'a client that is ahead of what this process knows waits, and misses nothing of the attempt that follows',
  async (t) => {
    const store = new HandStore()
    store.stored.push(...commit(attempt(7, 4, store)))
    const row = aStoredRun({ status: 'running', attempts: 1 })
    const rows = { now: row }
    const replica = await RunLog.replica(row, store, async () => rows.now)
    // What the first attempt had said as 4 and 5 was never stored.
    const [byId, byNumber] = [toldAfter(replica, 5, 7), toldAfter(replica, 5, null)]
    t.strictSame([await byId(), await byNumber()], [[], []])
    const past = { epochs: [{ epoch: 7, first: 0 }], head: 4 }
    const second = RunLog.begin(row, store, { windowBytes: 1 << 20, eventBytes: 0 }, past, undefined, 9)
    for (let n = 4; n < 8; n++) second.append(Kind.custom, 'custom', String(n))
    store.stored.push(...commit(second))
    rows.now = { ...row, attempts: 2 }
    await replica.advance()
    t.strictSame(await byId(), [4, 5, 6, 7])
    t.strictSame(await byNumber(), [4, 5, 6, 7])
  }
)

t.test('an attempt that was lost whole is known to a process that saw it begin elsewhere', async (t) => {
  const store = new HandStore()
  const row = aStoredRun({ status: 'running', attempts: 1 })
  const rows = { now: row }
  const replica = await RunLog.replica(row, store, async () => rows.now)
  const byNumber = toldAfter(replica, 2, null)
  t.strictSame(await byNumber(), [])
  rows.now = { ...row, attempts: 2 }
  const second = attempt(9, 4)
  store.stored.push(...commit(second))
  await replica.advance()
  t.strictSame(await byNumber(), [0, 1, 2, 3])
  const later = await RunLog.replica(row, store, async () => rows.now)
  t.strictSame(await toldAfter(later, 2, null)(), [0, 1, 2, 3], 'also by a row that was read before')
})

t.test(
  'who says only a number is told anew what an attempt behind a crash has under it, and an end once',
  async (t) => {
    const store = new HandStore()
    store.stored.push(...commit(attempt(7, 4, store)))
    // What the first attempt had said as 4 and 5 is lost.
    const past = { epochs: [{ epoch: 7, first: 0 }], head: 4 }
    const second = RunLog.begin(
      aStoredRun({ run_id: 'run' }),
      store,
      { windowBytes: 1 << 20, eventBytes: 0 },
      past,
      undefined,
      9
    )
    for (let n = 4; n < 8; n++) second.append(Kind.custom, 'custom', String(n))
    store.stored.push(...commit(second))
    t.strictSame(await toldAfter(second, 5, null)(), [4, 5, 6, 7])
    t.strictSame(await toldAfter(second, 3, null)(), [4, 5, 6, 7])
    t.strictSame(await toldAfter(second, 1, null)(), [2, 3, 4, 5, 6, 7])
    t.strictSame(await toldAfter(second, 5, 9)(), [6, 7], 'its id says of which attempt it is')

    const whole = new HandStore()
    whole.stored.push(...commit(attempt(7, 4, whole)))
    const ended = await RunLog.ended(aStoredRun({ status: 'success', last_cursor: '7-3' }), whole)
    // The last number that its run can have.
    const end = FRAMES_MAX - 1 / PARTS_MAX
    t.strictSame(await toldAfter(ended, 2, null)(), [3, end])
    t.strictSame(await toldAfter(ended, 3, null)(), [end])
    t.strictSame(await toldAfter(ended, end, null)(), [])
  }
)

t.test('who says only a number is told all behind the first attempt that may have lost it', async (t) => {
  const store = new HandStore()
  store.stored.push(...commit(attempt(7, 2, store)))
  // What the first attempt had said as 2, 3 and more is lost; the second got from 2 to 4, the third begins with 5.
  const past = { epochs: [{ epoch: 7, first: 0 }], head: 2 }
  const options = { windowBytes: 1 << 20, eventBytes: 0 }
  const row = { run_id: 'run', attempts: 3 }
  const next = (bounds: LogBounds, epoch: number, until: number) => {
    const log = RunLog.begin(
      aStoredRun({ ...row, attempts: bounds.epochs.length }),
      store,
      options,
      bounds,
      undefined,
      epoch
    )
    for (let n = bounds.head; n < until; n++) log.append(Kind.custom, 'custom', String(n))
    store.stored.push(...commit(log))
    return log
  }
  next(past, 8, 5)
  const third = next({ epochs: [...past.epochs, { epoch: 8, first: 2 }], head: 5 }, 9, 8)
  const end = FRAMES_MAX - 1 / PARTS_MAX
  const ended = await RunLog.ended(aStoredRun({ ...row, status: 'success', last_cursor: '9-7' }), store)
  const replica = await RunLog.replica(aStoredRun({ ...row, status: 'running' }), store)
  for (const [where, log, ends] of [
    ['here', third, []],
    ['elsewhere', replica, []],
    ['later', ended, [end]]
  ] as const) {
    t.strictSame(await toldAfter(log, 1, null)(), [2, 3, 4, 5, 6, 7, ...ends], `${where}: all attempts have the same 1`)
    t.strictSame(await toldAfter(log, 3, null)(), [2, 3, 4, 5, 6, 7, ...ends], `${where}: 3 may be of the first`)
    t.strictSame(await toldAfter(log, 6, null)(), [2, 3, 4, 5, 6, 7, ...ends], `${where}: and 6`)
    t.strictSame(await toldAfter(log, 3, 8)(), [4, 5, 6, 7, ...ends], `${where}: an id says of which it is`)
  }
})
