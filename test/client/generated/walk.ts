// What the README promises in its first minutes, by a client whose types were generated from the description of the API. The file
// beside it, api.ts, is made by the test that compiles and runs this.
import type { paths } from './api.ts'

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Having<M extends Method> = {
  [P in keyof paths]: paths[P][M & keyof paths[P]] extends { responses: unknown } ? P : never
}[keyof paths]
type Operation<P extends keyof paths, M extends Method> = paths[P][M & keyof paths[P]]
type JsonOf<Response> = Response extends { content: { 'application/json': infer Body } } ? Body : never
type Answer<Op> = Op extends { responses: infer R }
  ? R extends { 200: infer Ok }
    ? JsonOf<Ok>
    : R extends { 201: infer Made }
      ? JsonOf<Made>
      : never
  : never
type Given<Op> = (Op extends { requestBody: { content: { 'application/json': infer Body } } }
  ? { body: Body }
  : Op extends { requestBody?: { content: { 'application/json': infer Body } } }
    ? { body?: Body }
    : unknown) &
  (Op extends { parameters: { path: infer Path } } ? { path: Path } : unknown) &
  (Op extends { parameters: { query?: infer Query } } ? { query?: Query } : unknown)

interface Sent {
  readonly body?: unknown
  readonly path?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
}

export class Client {
  readonly #url: string
  readonly #cookies = new Map<string, string>()

  constructor(url: string) {
    this.#url = url
  }

  async call<M extends Method, P extends Having<M>>(
    method: M,
    path: P,
    given: Given<Operation<P, M>>
  ): Promise<Answer<Operation<P, M>>> {
    // Whatever an operation is given is some of these three.
    const response = await this.send(method, path, given as Sent)
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`)
    return (await response.json()) as Answer<Operation<P, M>>
  }

  async send(method: string, path: string, { body, path: names = {}, query = {} }: Sent): Promise<Response> {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] ?? ''))
    const search = new URLSearchParams(
      Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
    )
    const response = await fetch(`${this.#url}${filled}${search.size > 0 ? `?${search}` : ''}`, {
      method: method.toUpperCase(),
      headers: {
        cookie: [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        'x-csrf-token': this.#cookies.get('csrf_token') ?? '',
        ...(body !== undefined && { 'content-type': 'application/json' })
      },
      ...(body !== undefined && { body: JSON.stringify(body) })
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      this.#cookies.set(name, value)
    }
    return response
  }
}

/** @returns the answer of the assistant, as the state has it */
export async function walk(url: string, words: string): Promise<string> {
  const client = new Client(url)
  const account = { email: 'ada@example.com', password: 'correct-horse-42' }
  const user = await client.call('post', '/api/v1/auth/register', { body: account })
  if (user.system_role !== 'user') throw new Error(`a new account is a user, and not ${user.system_role}`)
  // @ts-expect-error a member that nobody described
  void user.role
  // @ts-expect-error a route that is none
  void (() => client.call('get', '/api/v1/nothing', {}))

  const { thread_id } = await client.call('post', '/api/threads', { body: { metadata: { of: 'the walk' } } })
  const body = { input: { messages: [{ role: 'user', content: words }] } }
  const stream = await client.send('post', '/api/threads/{thread_id}/runs/stream', { path: { thread_id }, body })
  if (!(await stream.text()).endsWith('event: end\ndata: null\n\n')) throw new Error('the stream did not say its end')

  const runs = await client.call('get', '/api/threads/{thread_id}/runs', { path: { thread_id }, query: { limit: 5 } })
  const run_id = String(runs[0]?.run_id)
  const run = await client.call('get', '/api/threads/{thread_id}/runs/{run_id}', { path: { thread_id, run_id } })
  if (run.status !== 'success') throw new Error(`the run ended as ${run.status}`)
  const events = await client.call('get', '/api/threads/{thread_id}/runs/{run_id}/events', {
    path: { thread_id, run_id }
  })
  if (!events.some(({ event_type }) => event_type === 'ai_message')) throw new Error('the answer was not recorded')
  const history = await client.call('post', '/api/threads/{thread_id}/history', {
    path: { thread_id },
    body: { limit: 3 }
  })
  if (history.length === 0) throw new Error('there is no history')
  const rated = await client.call('put', '/api/threads/{thread_id}/runs/{run_id}/feedback', {
    path: { thread_id, run_id },
    body: { rating: 1 }
  })
  if (rated.rating !== 1) throw new Error('the rating was not kept')
  const thread = await client.call('get', '/api/threads/{thread_id}', { path: { thread_id } })
  const answer = thread.values.messages?.at(-1)
  await client.call('delete', '/api/threads/{thread_id}', { path: { thread_id } })
  return typeof answer?.content === 'string' ? answer.content : ''
}
