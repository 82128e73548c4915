// A store of which one method rejects, once: each method of each port that a request, a stream or a message of another process comes
// through. The request may fail, in the contract's shape; the process lives, nothing hangs, and the next request is answered as ever.
//
// Which methods there are is not written down: everything is done once to see what it calls, and then again for each of them.
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { defineAgent } from '../../lib/agent/define.ts'
import { type Store, StoreUnavailable } from '../../lib/store/store.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { FOREIGN } from '../fixtures/openapi.ts'
import { type Answer, asked, at, homeOf, openSite, type Person, type Site, signIn, until } from '../fixtures/gateway.ts'
import { onOther } from '../fixtures/pair.ts'
import { ask, places, statusOf } from '../fixtures/place.ts'
import { programOf } from '../fixtures/program.ts'

/** Longer than anything here takes, many times. */
const HANGS_MS = 20_000
/** How long a method rejects. */
const GONE_MS = 250

/** What a store throws when its server is gone, and what it throws when it is broken. */
const ERRORS = {
  unavailable: () => new StoreUnavailable('CONNECTION_CLOSED', 'the connection is closed'),
  broken: () => new Error('injected')
} as const
type Kind = keyof typeof ERRORS

class Fault {
  /** Every method that was called since the last look. */
  readonly called = new Set<string>()
  readonly #waiting: (() => void)[] = []
  #onAwaited: () => void = () => {}
  #armed: { readonly name: string; readonly kind: Kind; readonly isOnce: boolean } | null = null

  /** From now on the method rejects, once or until it is disarmed; `*`: every one. */
  arm(name: string, kind: Kind, isOnce = true): void {
    this.#armed = { name, kind, isOnce }
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves when a method is armed. */
  rejects(): Promise<void> {
    this.#onAwaited()
    return new Promise((resolve) => (this.#armed ? resolve() : this.#waiting.push(resolve)))
  }

  /** Resolves when the journey has come so far that it waits for that. */
  awaited(): Promise<void> {
    return new Promise((resolve) => {
      this.#onAwaited = resolve
    })
  }

  disarm(): void {
    this.#armed = null
  }

  /** The store with every method of it and of its ports in front of the real ones. */
  readonly behind = (store: Store): Store => this.#around(store, '') as Store

  #around(object: object, prefix: string): object {
    const wrapped = new Map<PropertyKey, unknown>()
    return new Proxy(object, {
      get: (target, key) => {
        const member: unknown = Reflect.get(target, key, target)
        if (wrapped.has(key) && typeof member === 'function') return wrapped.get(key)
        const name = `${prefix}${String(key)}`
        if (typeof member === 'object' && member !== null && prefix === '' && !(member instanceof Error)) {
          if (!wrapped.has(key)) wrapped.set(key, this.#around(member, `${name}.`))
          return wrapped.get(key)
        }
        if (typeof member !== 'function') return member
        // Nothing was done [Store 3].
        const method = (...args: unknown[]): unknown => {
          if (this.#armed?.name === name || (this.#armed?.name === '*' && isAsync(name))) {
            const { kind, isOnce } = this.#armed
            if (isOnce) this.#armed = null
            return new Promise((_, reject) => setImmediate(() => reject(ERRORS[kind]())))
          }
          const result: unknown = member.apply(target, args)
          if (result instanceof Promise && isAsync(name)) this.called.add(name)
          return result
        }
        wrapped.set(key, method)
        return method
      }
    })
  }
}

/** Messages to peers are sent and forgotten, and to close is the test's. */
function isAsync(name: string): boolean {
  return !name.endsWith('close') && name !== 'peers.tell' && name !== 'trouble'
}

/** What `work` calls, in no order. */
async function callsOf(fault: Fault, work: () => Promise<unknown>): Promise<string[]> {
  fault.called.clear()
  await work()
  return [...fault.called]
}

/** @throws when it takes too long */
async function inTime<T>(work: Promise<T>, what: string): Promise<T> {
  const late = pause(HANGS_MS, null, { ref: false }).then(() => Promise.reject(new Error(`${what} hangs`)))
  late.catch(() => {})
  return Promise.race([work, late])
}

/** What a request may be answered when the store fails it: what it is owed, or an error that gives nothing away. */
/** `isForeign`: in the form of another protocol, all of which have an `error`. */
function isInShape({ status, text, body }: Answer, owed: number, isForeign: boolean): boolean {
  if (status === owed || (status === 500 && text === 'Internal Server Error')) return true
  if (isForeign) return [500, 503].includes(status) && at(body, 'error') !== undefined && !text.includes('injected')
  return status === 503 && typeof at(body, 'detail') === 'string' && !text.includes('injected')
}

function rejectionsOf(t: Test): unknown[] {
  const all: unknown[] = []
  const onRejection = (error: unknown) => void all.push(error)
  const onWarning = (warning: Error) => void (/injected|is closed/.test(warning.message) && all.push(warning))
  process.on('unhandledRejection', onRejection)
  process.on('warning', onWarning)
  t.teardown(() => process.off('unhandledRejection', onRejection).off('warning', onWarning))
  return all
}

t.test('any method of the store may reject: the route answers in shape, or as if nothing had been', async (t) => {
  const fault = new Fault()
  const site = await openSite(t, { config: { title: { enabled: false }, sharing: 'public' }, behind: fault.behind })
  const owner = await signIn(site)
  const rejections = rejectionsOf(t)
  const placeOf = places(owner, 'sqlite')
  const reached = new Set<string>()
  const routes = Object.entries(EXPECTED).filter(([, { reach }]) => reach !== 'public' && reach !== 'admin')
  for (const [name, expected] of routes) {
    const first = await placeOf(name)
    const calls = await callsOf(fault, () => ask(owner, name, first))
    for (const [i, method] of calls.entries()) {
      const place = await placeOf(name)
      fault.arm(method, i % 2 ? 'broken' : 'unavailable')
      const answer = await inTime(
        ask(owner, name, place).catch((error: unknown) => error as Error),
        `${name} when ${method} rejects`
      )
      fault.disarm()
      reached.add(method)
      // An answer that had begun is reset, and its client asks again.
      const isRight =
        answer instanceof Error
          ? expected.endless || isReset(answer)
          : isInShape(answer, statusOf(expected, 'sqlite'), FOREIGN.has(name))
      t.ok(
        isRight,
        `${name} when ${method} rejects: ${answer instanceof Error ? answer : `${answer.status} ${answer.text.slice(0, 200)}`}`
      )
    }
  }
  t.ok(reached.size > 25, `${reached.size} methods`)
  t.strictSame(rejections, [])
  await serves(t, site, owner)
})

function isReset(error: Error): boolean {
  return /terminated|reset|fetch failed|closed/i.test(`${error.message} ${String(error.cause)}`)
}

/** It does what it did before. */
async function serves(t: Test, site: Site, person: Person): Promise<void> {
  const thread = await person.thread()
  const answer = await inTime(person.post(`/api/threads/${thread}/runs/wait`, asked('hello')), 'a run afterwards')
  t.equal(answer.status, 200, answer.text.slice(0, 300))
  await until(() => site.sizes().runs === 0, 'the runs are gone')
}

t.test(
  'any method of the store may reject, and all of them, while processes read, cancel and delete runs of each other',
  async (t) => {
    const fault = new Fault()
    const home = homeOf(t)
    const config = {
      database: await databaseSection(t, 'postgres'),
      title: { enabled: false },
      runs: { lease_ms: 3000 },
      streams: { heartbeat_ms: 1000 }
    }
    const agent = defineAgent(async function* (_, signal) {
      for (let i = 0; i < 16 && !signal.aborted; i++) {
        yield `piece ${i} `
        await pause(40)
      }
    })
    const a = await openSite(t, { config, home, agent, behind: fault.behind })
    const b = await openSite(t, { config, home, agent, behind: fault.behind })
    const onA = await signIn(a)
    const onB = onOther(onA, b)
    const rejections = rejectionsOf(t)
    const journey = () => Promise.all(JOURNEY.map((step) => step(onA, onB, fault).catch(() => {})))
    const settled = () => until(() => a.sizes().runs === 0 && b.sizes().runs === 0, 'every run has ended')
    const calls = await callsOf(fault, async () => {
      await journey()
      await settled()
      // Heartbeats, leases and polls.
      await pause(1500)
    })
    t.ok(calls.includes('peers.runLocations') && calls.includes('frames.read'), calls.join(' '))
    // As when the server is gone, at each moment of it.
    const moments = [20, 100, null, null].map((afterMs) => ['*', afterMs] as const)
    for (const [i, [method, afterMs]] of [...moments, ...calls.map((name) => [name, null] as const)].entries()) {
      const kind = method === '*' || i % 2 ? 'unavailable' : 'broken'
      const awaited = fault.awaited()
      const going = journey()
      await Promise.race([afterMs === null ? awaited : pause(afterMs), going])
      fault.arm(method, kind, false)
      await pause(GONE_MS)
      fault.disarm()
      await inTime(going, `the journey when ${method} rejects`)
      await inTime(settled(), `a run when ${method} rejects`)
      t.strictSame(rejections.splice(0), [], `${method} rejects: ${kind}`)
    }
    await serves(t, a, onA)
    await serves(t, b, onB)
  }
)

type Step = (onA: Person, onB: Person, fault: Fault) => Promise<unknown>

/** What people do with runs of the other process. */
const JOURNEY: readonly Step[] = [
  // A reader leaves a stateless run of the other process.
  async (onA, onB, fault) => {
    const made = await onA.open('POST', '/api/runs/stream', { body: asked('hello', { on_completion: 'delete' }) })
    const other = await onB.join(made.runPath)
    await other.until(() => other.frames.length > 2)
    await Promise.race([fault.rejects(), made.ended])
    other.leave()
    return made.ended
  },
  async (onA, onB) => {
    const path = await onA.run(await onA.thread(), 'hello')
    const stream = await onB.join(path)
    await Promise.all([stream.ended, onB.get(`${path}/join`)])
    const again = await onB.join(path)
    return again.ended
  },
  async (onA, onB) => {
    const thread = await onA.thread()
    const stream = await onA.stream(thread, 'hello', { on_disconnect: 'cancel' })
    const second = await onB.run(thread, 'again', { multitask_strategy: 'interrupt' })
    await onB.post(`${second}/cancel`)
    return stream.ended
  },
  async (onA, onB) => {
    const thread = await onA.thread()
    await onA.run(thread, 'hello')
    const watching = await onB.open('GET', `/api/threads/${thread}/stream`)
    await onB.run(thread, 'again', { multitask_strategy: 'rollback' })
    await pause(100)
    watching.leave()
    return onB.ask('DELETE', `/api/threads/${thread}`)
  },
  async (onA, onB) => {
    const program = await programOf(onA, 'threads:write', 'runs:create', 'runs:read')
    const path = await onA.run(await onA.thread(), 'hello')
    program.url = onB.url
    const stream = await program.join(path)
    await onA.get('/api/v1/auth/tokens')
    return stream.ended
  }
]
