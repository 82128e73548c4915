// The router: what a path means, and what it does not.
import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import { CONTRACT } from '../../lib/http/dialect.ts'
import { type Method, route } from '../../lib/http/route.ts'
import { Router } from '../../lib/http/router.ts'
import { dialectOf } from '../../lib/langgraph/api/dialect.ts'
import { aRoute, BARE } from '../fixtures/door.ts'

const at = (method: Method, path: string, more: { tail?: boolean; access?: 'public' | 'user' } = {}) =>
  aRoute({ method, path, ...more })

const router = new Router([
  at('GET', '/', { access: 'public' }),
  at('GET', '/health', { access: 'public' }),
  at('POST', '/api/threads'),
  at('POST', '/api/threads/search'),
  at('GET', '/api/threads/{thread_id}'),
  at('PATCH', '/api/threads/{thread_id}'),
  at('GET', '/api/threads/{thread_id}/state'),
  at('GET', '/api/threads/{thread_id}/runs/{run_id}'),
  at('POST', '/api/threads/{thread_id}/runs/stream'),
  at('GET', '/api/threads/{thread_id}/artifacts/{path}', { tail: true }),
  at('GET', '/api/skills/custom/{skill_name}'),
  at('GET', '/api/skills/{skill_name}')
])

function found(method: string, path: string) {
  const match = router.match(method, path)
  return match.kind === 'found' ? { path: match.route.path, params: match.params, shown: match.path } : match.kind
}

t.test('a {name} takes one segment and is decoded', async (t) => {
  t.match(found('GET', '/api/threads/abc'), {
    path: '/api/threads/{thread_id}',
    params: { thread_id: 'abc' },
    shown: '/api/threads/abc'
  })
  t.match(found('GET', '/api/threads/a%20b/runs/r'), { params: { thread_id: 'a b', run_id: 'r' } })
  t.match(found('GET', '/api/threads/a%2fb'), { params: { thread_id: 'a/b' } })
  t.equal(found('GET', '/api/threads/a/b'), 'missing')
})

t.test('a static segment wins over a {name}, and gives way where only the name leads on', async (t) => {
  t.match(found('POST', '/api/threads/search'), { path: '/api/threads/search' })
  t.match(found('GET', '/api/threads/search'), { path: '/api/threads/{thread_id}', params: { thread_id: 'search' } })
  t.match(found('GET', '/api/threads/search/state'), { params: { thread_id: 'search' } })
  t.match(found('GET', '/api/skills/custom'), { path: '/api/skills/{skill_name}' })
  t.match(found('GET', '/api/skills/custom/x'), { path: '/api/skills/custom/{skill_name}' })
})

t.test('a trailing slash is tolerated, an empty segment is not', async (t) => {
  t.match(found('GET', '/health/'), { path: '/health' })
  t.match(found('GET', '/api/threads/abc/'), { params: { thread_id: 'abc' } })
  for (const path of ['/api//threads', '/api/threads//', '/api/threads//state', '//health'])
    t.equal(found('GET', path), 'missing', path)
})

t.test('what LangGraph has at the root is ours below /api, and nothing else is', async (t) => {
  t.match(found('GET', '/threads/abc'), { path: '/api/threads/{thread_id}', shown: '/api/threads/abc' })
  t.match(found('POST', '/threads/abc/runs/stream/'), { params: { thread_id: 'abc' } })
  t.match(found('GET', '/threads/a%20b'), { params: { thread_id: 'a b' } })
  for (const path of ['/skills/x', '/threads/threads/abc', '//threads/abc', '/api/api/threads/abc'])
    t.equal(found('GET', path), 'missing', path)
})

t.test('a LangGraph client is known by where it calls, by X-Api-Key and by its name', async (t) => {
  const is = (url: string, headers: Record<string, string> = {}) =>
    dialectOf({ url, headers } as unknown as IncomingMessage) !== CONTRACT
  t.equal(is('/api/threads'), false)
  t.equal(is('/api/threads', { authorization: 'Bearer clq_x', cookie: 'access_token=x' }), false)
  t.equal(is('/api/langgraph/threads?x=/threads'), false)
  for (const url of ['/threads', '/runs/stream?stream_mode=values', '/assistants/search', '/store/items'])
    t.equal(is(url), true, url)
  t.equal(is('/api/threads', { 'x-api-key': 'clq_x' }), true)
  t.equal(is('/api/threads', { 'user-agent': 'langgraph-sdk-py/0.4.14' }), true)
})

t.test('its Python client has a dialect of its own, at the root and below /api', async (t) => {
  const of = (url: string, agent: string) =>
    dialectOf({ url, headers: { 'user-agent': agent } } as unknown as IncomingMessage)
  for (const url of ['/threads', '/api/threads']) {
    t.match(of(url, 'langgraph-sdk-py/0.4.14'), { secondRun: 'enqueue', existingThread: 'raise', errors: null })
    t.match(of(url, 'langgraph-sdk-js'), { secondRun: 'reject', existingThread: 'raise' })
  }
})

t.test('/api/langgraph/... is /api/...', async (t) => {
  t.match(found('GET', '/api/langgraph/threads/abc'), { path: '/api/threads/{thread_id}', shown: '/api/threads/abc' })
  t.match(found('POST', '/api/langgraph/threads'), { path: '/api/threads' })
  t.equal(found('GET', '/api/langgraph/langgraph/threads/abc'), 'missing')
  t.equal(found('GET', '/langgraph/health'), 'missing')
})

t.test('a tail takes the rest with its slashes', async (t) => {
  t.match(found('GET', '/api/threads/t/artifacts/mnt/a%20b/c.txt'), {
    params: { thread_id: 't', path: 'mnt/a b/c.txt' }
  })
  t.match(found('GET', '/api/threads/t/artifacts//mnt/x'), { params: { path: '/mnt/x' } })
  t.equal(found('GET', '/api/threads/t/artifacts'), 'missing')
})

t.test('HEAD is answered by the GET route', async (t) => {
  t.match(found('HEAD', '/health'), { path: '/health' })
  t.match(found('HEAD', '/api/threads/abc'), { path: '/api/threads/{thread_id}' })
})

t.test('a known path with another method names the methods it has', async (t) => {
  t.match(router.match('DELETE', '/api/threads/abc'), { kind: 'method', allow: 'GET, HEAD, PATCH', isPublic: false })
  t.match(router.match('PUT', '/api/threads/search'), { kind: 'method', allow: 'GET, HEAD, PATCH, POST' })
  t.match(router.match('POST', '/health'), { kind: 'method', allow: 'GET, HEAD', isPublic: true })
})

t.test('broken encoding and NUL are malformed', async (t) => {
  for (const path of [
    '/%',
    '/api/threads/%zz',
    '/api/threads/%E0%A4%A',
    '/api/threads/%ff%fe',
    '/api/threads/%c0%af',
    '/api/threads/%00',
    '/a\0'
  ]) {
    t.equal(found('GET', path), 'malformed', path)
  }
})

t.test('names of the language are no routes and no harm', async (t) => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    t.match(found('GET', `/api/skills/${name}`), { params: { skill_name: name } })
    t.equal(found('GET', `/${name}`), 'missing')
    t.equal(found(name, '/health'), 'method')
  }
})

t.test('no path whatever throws', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (path) => typeof router.match('GET', `/${path}`).kind === 'string')
  )
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('api', 'threads', 'abc', '..', '.', '', '%2f', '%', 'langgraph', 'artifacts')),
      (parts) => {
        return typeof router.match('GET', `/${parts.join('/')}`).kind === 'string'
      }
    )
  )
  t.pass()
})

t.test('any text comes through a segment unchanged', async (t) => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), (text) => {
      // Of dot segments no client sends the name: it takes them out of its URL itself.
      if (text.includes('\0') || /^\.\.?$/.test(text)) return true
      const match = router.match('GET', `/api/skills/${encodeURIComponent(text)}`)
      return match.kind === 'found' && match.params.skill_name === text
    })
  )
  t.pass()
})

t.test('routes that contradict themselves or each other are refused at start', async (t) => {
  t.throws(() => new Router([at('GET', '/a'), at('GET', '/a')]), /two routes for GET \/a/)
  t.throws(() => new Router([at('GET', '/a/{x}'), at('GET', '/a/{y}')]), /two routes/)
  t.throws(() => at('GET', 'a'), /starts with/)
  t.throws(() => at('GET', '/a', { tail: true }), /tail/)
  const handler = () => ({})
  const row = { ...BARE, method: 'GET', path: '/a', handler } as const
  t.throws(() => route({ ...row, thread: 'read' }), /thread_id/)
  t.throws(() => route({ ...row, path: '/{thread_id}', access: 'public', thread: 'read' }), /user/)
  t.throws(() => route({ ...row, path: '/{thread_id}' }), /a thread has a rule/)
  t.throws(() => route({ ...row, access: 'public', rule: 'threads:read' }), /a rule is asked about a user/)
})

t.test('a row without words, answers or a rule does not compile', async (t) => {
  const { summary, answers, rule } = BARE
  const handler = () => ({})
  const rows = [
    route({ method: 'GET', path: '/a', summary, answers, rule, handler }),
    // @ts-expect-error: no words
    route({ method: 'GET', path: '/a', answers, rule, handler }),
    // @ts-expect-error: it does not say what it answers
    route({ method: 'GET', path: '/a', summary, rule, handler }),
    // @ts-expect-error: it does not say what the rules of a project are asked
    route({ method: 'GET', path: '/a', summary, answers, handler }),
    // @ts-expect-error: a rule that nobody knows
    route({ method: 'GET', path: '/a', summary, answers, rule: 'threads:look', handler }),
    // @ts-expect-error: no handler
    () => route({ method: 'GET', path: '/a', summary, answers, rule })
  ]
  t.equal(rows.length, 6)
})
