// Pages: whoever loads the newest page, scrolls back and asks for what is new has each record once, whatever is written meanwhile.
import fc from 'fast-check'
import t from 'tap'
import { addEvents, addRun, addThread, anEvent } from '../contract/harness.ts'
import { openBackend } from '../fixtures/backends.ts'
import { at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'

const RUNS = Number(process.env.PAGES_RUNS ?? 25)
/** What happens next: somebody writes, scrolls back, or looks for what is new. All of one turn happen at once. */
const rounds = fc.array(
  fc.array(fc.oneof(fc.constantFrom('back' as const, 'forth' as const), fc.integer({ min: 1, max: 7 })), {
    maxLength: 4
  }),
  { maxLength: 12 }
)

const seqsOf = (rows: readonly unknown[]): number[] => rows.map((row) => Number(at(row, 'seq')))

/** A client of one list: pages, and where it stands at both ends. */
class Reader {
  readonly seen: number[] = []
  isAtStart = false
  readonly #page: (query: string) => Promise<readonly unknown[]>
  readonly #limit: number

  constructor(limit: number, page: (query: string) => Promise<readonly unknown[]>) {
    this.#limit = limit
    this.#page = page
  }

  async begin(): Promise<void> {
    this.seen.push(...seqsOf(await this.#page(`limit=${this.#limit}`)))
  }
  async back(): Promise<void> {
    const [first] = this.seen
    if (first === undefined || this.isAtStart) return
    const seqs = seqsOf(await this.#page(`limit=${this.#limit}&before_seq=${first}`))
    this.isAtStart = seqs.length === 0
    this.seen.unshift(...seqs)
  }
  /** False: there was nothing new. */
  async forth(): Promise<boolean> {
    const last = this.seen.at(-1)
    if (last === undefined) return false
    const seqs = seqsOf(await this.#page(`limit=${this.#limit}&after_seq=${last}`))
    this.seen.push(...seqs)
    return seqs.length > 0
  }
  async rest(): Promise<void> {
    while (this.seen.length && !this.isAtStart) await this.back()
    while (await this.forth());
  }
}

/** Back from the newest, by the positions that the pages themselves give. */
async function pageByPage(person: Person, threadId: string, limit: number): Promise<number[]> {
  const seqs: number[] = []
  for (let before: unknown = ''; before !== null; ) {
    const query = before === '' ? '' : `&before_seq=${before}`
    const { body } = await person.get(`/api/threads/${threadId}/messages/page?limit=${limit}${query}`)
    seqs.unshift(...seqsOf(listIn(body, 'data')))
    before = at(body, 'next_before_seq')
    if (at(body, 'has_more') !== (before !== null)) throw new Error('has_more and next_before_seq do not agree')
  }
  return seqs
}

t.test('pages cover each record once while others write [contract 4.4]', async (t) => {
  const store = await openBackend(t, 'sqlite')
  const person = await signIn(await openSite(t, { store }))
  const user_id = textIn((await person.get('/api/v1/auth/me')).body, 'id')

  const property = fc.asyncProperty(fc.integer({ min: 1, max: 6 }), rounds, async (limit, rounds) => {
    const { thread_id } = await addThread(store, { user_id })
    const run = await addRun(store, thread_id, { user_id })
    const path = `/api/threads/${thread_id}`
    let k = 0
    const write = async (count: number) => {
      // Every third is no message: what is left out of a list leaves holes in its numbers.
      const events = Array.from({ length: count }, () => anEvent(k, { category: k++ % 3 === 2 ? 'trace' : 'message' }))
      await addEvents(store, run, events)
    }
    await write(3)
    const ofThread = new Reader(limit, async (query) => listIn((await person.get(`${path}/messages?${query}`)).body))
    const runPath = `${path}/runs/${run.run_id}`
    const ofRun = new Reader(limit, async (query) =>
      listIn((await person.get(`${runPath}/messages?${query}`)).body, 'data')
    )
    const readers = [ofThread, ofRun]
    for (const reader of readers) await reader.begin()
    const events: number[] = []
    for (const turn of rounds) {
      const writing = turn.filter((act) => typeof act === 'number').reduce((sum, count) => sum + count, 0)
      const reading = readers.map(async (reader) => {
        for (const act of turn) {
          if (act === 'back') await reader.back()
          if (act === 'forth') await reader.forth()
        }
      })
      await Promise.all([...reading, writing > 0 ? write(writing) : null])
      const after = events.length ? `&after_seq=${events.at(-1)}` : ''
      events.push(...seqsOf(listIn((await person.get(`${runPath}/events?limit=${limit}${after}`)).body)))
    }
    for (const reader of readers) await reader.rest()
    for (let after = events.at(-1); ; after = events.at(-1)) {
      const query = after === undefined ? '' : `&after_seq=${after}`
      const page = seqsOf(listIn((await person.get(`${runPath}/events?limit=${limit}${query}`)).body))
      if (!page.length) break
      events.push(...page)
    }
    const all = Array.from({ length: k }, (_, i) => i + 1)
    const messages = all.filter((seq) => seq % 3 !== 0)
    for (const { seen } of readers) t.strictSame(seen, messages)
    t.strictSame(await pageByPage(person, thread_id, limit), messages)
    t.strictSame(events, all)
  })
  await fc.assert(property, { numRuns: RUNS })
})

t.test(
  'a page of runs names where the next one begins, also where long runs have ended it before its limit',
  async (t) => {
    const store = await openBackend(t, 'sqlite')
    const site = await openSite(t, { store })
    const ann = await signIn(site, 'ann')
    const thread = await ann.thread()
    const user_id = textIn((await ann.get('/api/v1/auth/me')).body, 'id')
    for (let n = 0; n < 300; n++) await addRun(store, thread, { user_id, metadata: { n, long: 'x'.repeat(16_000) } })
    const seen: unknown[] = []
    let pages = 0
    for (let offset: string | null = '0'; offset !== null; pages++) {
      const answer: Response = await fetch(`${site.url}/api/threads/${thread}/runs?limit=300&offset=${offset}`, {
        headers: ann.headers()
      })
      seen.push(...listIn(await answer.json()).map((run) => at(run, 'metadata', 'n')))
      offset = answer.headers.get('x-pagination-next')
    }
    t.equal(pages, 2)
    t.strictSame(
      seen,
      Array.from({ length: 300 }, (_, n) => 299 - n),
      'each once, newest first'
    )
    const all = await fetch(`${site.url}/api/threads/${await ann.thread()}/runs`, { headers: ann.headers() })
    t.notOk(all.headers.has('x-pagination-next'), 'there is no page behind the last one')
  }
)

t.test('a page of the versions of an assistant names where the next one begins', async (t) => {
  const person = await signIn(await openSite(t))
  const made = await person.post('/api/assistants', { graph_id: 'lead_agent', name: 'One' })
  const path = `/api/assistants/${textIn(made.body, 'assistant_id')}`
  await person.ask('PATCH', path, { body: { name: 'Two' } })
  const page = async (offset: number) => {
    const { body, headers } = await person.post(`${path}/versions`, { limit: 1, offset })
    const names = listIn(body).map((one) => at(one, 'name'))
    return [names, headers.get('x-pagination-next'), headers.get('x-pagination-total')]
  }
  t.strictSame(await page(0), [['Two'], '1', '2'])
  t.strictSame(await page(1), [['One'], null, '2'])
})
