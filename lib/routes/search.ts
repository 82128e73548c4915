// Finds words in the titles and messages of the caller's threads.
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { readTurns } from '../base/loop-turns.ts'
import { type Authorization, type Call, type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { isObject, type RunEvent } from '../base/types.ts'
import type { TextPlace } from '../store/store.ts'
import { textShown } from '../thread/search/indexer.ts'
import { type Query, queryOf, snippetOf } from '../thread/search/words.ts'
import { arrayOf, int, one, optionalText, oneOf, shaped, text, time, yesNo } from './answers.ts'
import type { Services } from './services.ts'

const searchQuery = objectOf({
  q: v.pipe(v.string(), v.maxLength(1000)),
  limit: v.optional(queryInteger({ min: 1, max: 100 }), '20'),
  offset: v.optional(queryInteger({ min: 0, max: 10_000 }), '0')
})

/** Searches take turns of the loop as one. */
const SEARCHES = 'search'

export function searchRoutes({ store }: Pick<Services, 'store'>): Route[] {
  /** Texts may be long: reading them takes turns with everything else. */
  const hitOf = async ({ thread_id, seq, at, title }: TextPlace, query: Query) => {
    await readTurns.enter(SEARCHES)
    const event = seq === 0 ? null : await eventAt(thread_id, seq)
    const shown = event ? textShown(event) : (title ?? '')
    return {
      thread_id,
      title,
      run_id: event?.run_id ?? null,
      message_id: event ? messageIdOf(event) : null,
      type: event ? (event.event_type === 'human_message' ? 'human' : 'ai') : 'title',
      created_at: at,
      snippet: snippetOf(shown, query)
    }
  }
  const eventAt = async (threadId: string, seq: number): Promise<RunEvent | null> => {
    const [event] = await store.events.listMessages(threadId, { after: seq - 1, limit: 1 })
    return event?.seq === seq ? event : null
  }
  const find = async ({ query }: Call<unknown, v.InferOutput<typeof searchQuery>>) => {
    const { search } = store
    if (!search) throw fail('search_unavailable')
    const { q, limit, offset } = query
    const wanted = queryOf(q)
    const waiting = await search.waiting()
    if (!wanted) return { json: { hits: [], total: 0, more: false, waiting } }
    const { places, total, more } = await search.find({ ...wanted, limit, offset })
    const hits = await Promise.all(places.map((place) => hitOf(place, wanted)))
    return { json: { hits, total, more, waiting } }
  }
  const hit = shaped({
    thread_id: text,
    title: optionalText,
    run_id: optionalText,
    message_id: optionalText,
    type: oneOf('human', 'ai', 'title'),
    created_at: time,
    snippet: arrayOf(shaped({ text, hit: yesNo }))
  })
  const total = { ...int, description: 'How many there are; with `more` at least so many' }
  const more = { ...yesNo, description: 'Not all were counted: there may be more than `total`' }
  return [
    route({
      method: 'GET',
      path: '/api/v1/search',
      // As the messages themselves.
      permission: 'runs:read',
      rule: unfiltered,
      query: searchQuery,
      summary:
        'Messages and titles that have all words, the last one by its beginning, newest first; `more`: there may be more than `total`',
      answers: one(shaped({ hits: arrayOf(hit), total, more, waiting: int })),
      handler: find
    })
  ]
}

/** A project whose rules narrow a search by metadata has none by words: the index knows no metadata. */
const unfiltered: Authorization = async (call, ask) => {
  if ((await ask('threads', 'search', {})) !== null) throw fail('search_unavailable')
  return call
}

function messageIdOf({ content }: RunEvent): string | null {
  return isObject(content) && typeof content.id === 'string' ? content.id : null
}
