// A run in another protocol: each range of its log is translated once, and encoded once for all readers of the same encoding.
import t from 'tap'
import { eventsOf, piecesOf, TranslatedFeed, type Translation } from '../../lib/protocols/feed.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { heapAfterGc } from '../fixtures/heap.ts'
import { aLog, aStoredRun } from '../fixtures/run-log.ts'

const FRAMES = 500
const READERS = 20

interface Said {
  readonly json: string
}

function counted() {
  const made = { translated: 0, encoded: 0 }
  const translation: Translation<number, Said> = {
    initial: 0,
    frame(_run, state) {
      made.translated++
      return { state: state + 1, events: [{ json: `${state}` }] }
    },
    end: () => []
  }
  const encoding = {
    bytes(events: readonly Said[]) {
      made.encoded += events.length
      return Buffer.from(events.map(({ json }) => `${json};`).join(''))
    }
  }
  const selection = { filter: filterOf(['messages-tuple']), withValues: false, takes: () => true, key: '' }
  return { made, view: { translation, encoding, selection: () => selection } }
}

async function textOf(feed: TranslatedFeed<number, Said>): Promise<string> {
  let text = ''
  for await (const { bytes } of piecesOf(feed)) text += bytes.toString()
  return text
}

t.test(
  'twenty readers cost one translation and one encoding, live, late, and each in another protocol its own',
  async (t) => {
    const log = aLog()
    const run = aStoredRun()
    const { made, view } = counted()
    const other = counted()
    const readers = Array.from({ length: READERS }, () => ({ feed: new TranslatedFeed(run, log, view), text: '' }))
    for (let n = 0; n < FRAMES; n++) {
      log.append(Kind.messages, 'messages', '["x"]')
      if (n % 50 === 49) for (const reader of readers) reader.text += await textOf(reader.feed)
    }
    const whole = Array.from({ length: FRAMES }, (_, n) => `${n};`).join('')
    for (const { text } of readers) t.equal(text, whole)
    t.equal(await textOf(new TranslatedFeed(run, log, view)), whole, 'and one that comes late')
    t.strictSame(made, { translated: FRAMES, encoded: FRAMES })
    t.equal((await eventsOf(new TranslatedFeed(run, log, other.view))).length, FRAMES)
    t.strictSame([made.translated, other.made], [FRAMES, { translated: FRAMES, encoded: 0 }])
  }
)

t.test('what was translated of a run goes with its log', async (t) => {
  const { view } = counted()
  const gone = await (async () => {
    const log = aLog()
    log.append(Kind.messages, 'messages', '["x"]')
    const [event] = await eventsOf(new TranslatedFeed(aStoredRun(), log, view))
    return new WeakRef(event!)
  })()
  for (let tries = 0; tries < 10 && gone.deref(); tries++) await heapAfterGc()
  t.equal(gone.deref(), undefined)
})
