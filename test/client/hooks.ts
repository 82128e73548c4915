// The classic useStream hook of every version of LangGraph's client, over graphs: the lines of the list on which it fell short once.
import { useStream } from '@langchain/langgraph-sdk/react'
import { useStream as useStream15 } from 'sdk-1.15/react'
import { useStream as useStream153 } from 'sdk-1.5.3/react'
import { useStream as useStream2 } from 'sdk-2/react'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { runHook } from '../fixtures/headless.ts'

/** What the tests use of what a hook gives: the versions differ in types that none of them looks at. */
interface Stream {
  readonly messages: readonly { readonly id?: string; readonly content: unknown }[]
  readonly values: object
  readonly isLoading: boolean
  readonly error: unknown
  readonly interrupt: { readonly value?: unknown; readonly when?: string } | undefined
  readonly history: readonly { readonly values: unknown }[]
  submit(values: object | null | undefined, options?: object): Promise<void>
  setBranch(branch: string): void
  getMessagesMetadata(message: object): {
    readonly firstSeenState?: { readonly values: unknown; readonly parent_checkpoint: object | null }
    readonly branchOptions?: readonly string[]
  }
}
type Hook = (options: object) => Stream

const HOOKS: Readonly<Record<string, Hook>> = {
  '1.5.3': useStream153 as unknown as Hook,
  '1.12.4': useStream as unknown as Hook,
  '1.15.0': useStream15 as unknown as Hook,
  '2.0.0': useStream2 as unknown as Hook
}

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']
const ASKING = { config: { configurable: { ask: 'interrupt' } } }

/** A conversation through a hook. */
interface Talk {
  readonly now: () => Stream
  readonly person: Person
  readonly version: string
  /** The thread, once it has one. */
  readonly thread: () => string
  said(): unknown[]
  /** Resolves when this was said and nothing goes on. */
  heard(texts: readonly string[]): Promise<void>
}

type HookTest = (t: Test, talk: (t: Test, more?: TalkOptions, assistant?: string) => Promise<Talk>) => Promise<void>
const tests: [string, HookTest][] = []
const probe = (name: string, run: HookTest) => void tests.push([name, run])

interface TalkOptions {
  /** Called with what each rendering is given. */
  readonly onRender?: (stream: Stream) => void
  readonly [name: string]: unknown
}

async function talkOf(t: Test, version: string, person: Person, { onRender, ...options }: TalkOptions): Promise<Talk> {
  let thread = ''
  const onThreadId = (id: string) => {
    thread = id
  }
  const given = {
    apiUrl: person.url,
    messagesKey: 'messages',
    fetchStateHistory: { limit: 100 },
    onThreadId,
    ...options
  }
  const now = await runHook(t, () => {
    const stream = HOOKS[version]!(given)
    onRender?.(stream)
    return stream
  })
  const said = () => now().messages.map(({ content }) => content)
  const heard = (texts: readonly string[]) =>
    until(
      () => !now().isLoading && said().join() === texts.join() && now().history.length > 0,
      `${texts.join()}`
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}: ${said().join()}, ${String(now().error)}`)
    })
  return { now, person, version, thread: () => thread, said, heard }
}

probe('streamMode of submit: values, updates, custom, debug, tasks, checkpoints, events', async (t, talk) => {
  const seen = new Set<string>()
  const names = ['Checkpoint', 'Custom', 'Debug', 'LangChain', 'Task', 'Update']
  const heard = Object.fromEntries(names.map((name) => [`on${name}Event`, () => void seen.add(name)]))
  const { now, heard: all } = await talk(t, heard)
  const streamMode = ['values', 'updates', 'custom', 'debug', 'tasks', 'checkpoints', 'events']
  void now().submit(FOO, { streamMode })
  await all(ALL)
  t.strictSame([...seen].sort(), names)
})

probe('an answer is shown with two requests, and its history is asked for once behind it', async (t, talk) => {
  const asked: string[] = []
  let whenShown: readonly string[] | null = null
  const { heard, now } = await talk(t, {
    callerOptions: {
      fetch: (input: string | URL | Request, init?: RequestInit) => {
        const { pathname } = new URL(input instanceof Request ? input.url : input)
        asked.push(pathname.replace(/[0-9a-f-]{36}/g, '*'))
        return fetch(input, init)
      }
    },
    onRender: ({ messages }) => {
      if (messages.at(-1)?.content === ALL.at(-1)) whenShown ??= [...asked]
    }
  })
  void now().submit(FOO)
  await heard(ALL)
  await until(() => now().history.length === 5, 'the history')
  t.strictSame(whenShown, ['/threads', '/threads/*/runs/stream'])
  t.equal(asked.filter((path) => path.endsWith('/history')).length, 1)
})

probe('interrupt, then resume', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO, ASKING)
  await until(() => !now().isLoading && now().interrupt !== undefined, 'an interrupt')
  t.equal(now().interrupt?.value, 'i want to interrupt')
  void now().submit(undefined, { command: { resume: 'yes' }, ...ASKING })
  await heard(ALL)
  t.equal(at(now().values, 'asked'), 'yes')
})

probe('interruptBefore of submit, then submit(null) goes on', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO, { interruptBefore: ['tool'] })
  await until(() => !now().isLoading && now().interrupt !== undefined, 'an interrupt')
  t.equal(now().interrupt?.when, 'breakpoint')
  void now().submit(null)
  await heard(ALL)
})

probe('command.goto END resolves an interrupt (agent-chat-ui)', async (t, talk) => {
  const { now, person, thread } = await talk(t)
  void now().submit(FOO, ASKING)
  await until(() => !now().isLoading && now().interrupt !== undefined, 'an interrupt')
  void now().submit({}, { command: { goto: '__end__' }, ...ASKING })
  await until(() => !now().isLoading && now().interrupt === undefined, 'resolved')
  t.match((await person.get(`/threads/${thread()}`)).body, { status: 'idle' })
})

probe('submit with multitaskStrategy rollback while a run works', async (t, talk) => {
  const { now, person, thread, version } = await talk(t, {}, 'steps')
  const rollback = { assistant_id: 'steps', multitask_strategy: 'rollback' }
  // A hook that submits lets go of its stream: by default that cancels the run, which may come before the rollback.
  const hanging = { config: { configurable: { count: 5, hang: 1 } }, onDisconnect: 'continue' }
  void now().submit({ steps: [] }, hanging)
  const runs = async () => listIn((await person.get(`/threads/${thread()}/runs`)).body)
  await until(async () => thread() !== '' && (await runs()).length === 1, 'a run')
  const first = textIn((await runs())[0], 'run_id')
  // Older versions hold a second submit back until the first has ended: there another tab sends it.
  if (version === '1.5.3' || version === '2.0.0')
    t.equal((await person.post(`/threads/${thread()}/runs`, { input: { steps: [] }, ...rollback })).status, 200)
  else void now().submit({ steps: [] }, { multitaskStrategy: 'rollback' })
  const statuses = async () => (await runs()).map((run) => at(run, 'status'))
  await until(async () => !now().isLoading && (await statuses())[0] === 'success', 'the second is done')
  t.strictSame(await statuses(), ['success'])
  t.equal((await person.get(`/threads/${thread()}/runs/${first}`)).status, 404, 'the first is gone')
})

const lengths = (states: readonly { readonly values: unknown }[]) =>
  states.map(({ values }) => (at(values, 'messages') as unknown[]).length)

probe('history: an entry a step, with messages', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO)
  await heard(ALL)
  await until(() => now().history.length === 5, 'the history')
  t.strictSame(lengths(now().history), [0, 1, 2, 3, 4])
})

probe('getMessagesMetadata: first seen state and its parent checkpoint', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO)
  await heard(ALL)
  await until(() => now().history.length === 5, 'the history')
  const seen = now().messages.map((message) => now().getMessagesMetadata(message).firstSeenState!)
  t.strictSame(lengths(seen), [1, 2, 3, 4])
  t.ok(seen.every(({ parent_checkpoint }) => parent_checkpoint !== null))
})

probe('branching: edit the first question, and setBranch goes back', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO)
  await heard(ALL)
  await until(() => now().history.length === 5, 'the history')
  const checkpoint = now().getMessagesMetadata(now().messages[0]!).firstSeenState!.parent_checkpoint
  void now().submit({ messages: [{ type: 'human', content: 'edited', id: 'edited' }] }, { checkpoint })
  await heard(['edited', ...ALL.slice(1)])
  const options = () => now().getMessagesMetadata(now().messages[0]!).branchOptions ?? []
  await until(() => options().length === 2, 'two branches')
  now().setBranch(options()[0]!)
  await heard(ALL)
})

probe('branching: regenerate an answer (agent-chat-ui)', async (t, talk) => {
  const { now, heard } = await talk(t)
  void now().submit(FOO)
  await heard(ALL)
  await until(() => now().history.length === 5, 'the history')
  const first = now().messages[1]!
  const checkpoint = now().getMessagesMetadata(first).firstSeenState!.parent_checkpoint
  void now().submit(undefined, { checkpoint })
  await until(() => now().messages[1] !== undefined && now().messages[1]!.id !== first.id, 'another answer')
  await heard(ALL)
})

t.test('useStream over graphs', async (t) => {
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: graphsFolder(t) } } })
  for (const version of Object.keys(HOOKS)) {
    const person = await signIn(site)
    const made = await person.post('/api/v1/auth/tokens', { name: 'hook', scopes: PERMISSIONS })
    const apiKey = textIn(made.body, 'token')
    for (const [name, run] of tests)
      await t.test(`${version}: ${name}`, (t) =>
        run(t, (t, more = {}, assistantId = 'agent') => talkOf(t, version, person, { apiKey, assistantId, ...more }))
      )
  }
})
