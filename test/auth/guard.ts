// The guard in the handlers: what they answer when everything in front of them was left out.
import t from 'tap'
import type { Route } from '../../lib/http/route.ts'
import { roomRoutes } from '../../lib/compose/http.ts'
import { routes } from '../../lib/routes/index.ts'
import type { AuthServices, Services } from '../../lib/routes/services.ts'
import { loadConfig } from '../../lib/config/config.ts'
import { EXPECTED, type Expected } from '../fixtures/expected.ts'
import { openDoor } from '../fixtures/door.ts'
import { nowhere } from '../fixtures/place.ts'

const config = loadConfig({ home: '/nowhere', env: {}, cwd: '/nowhere' })

/** Whatever is asked of it has been asked too early. */
function untouchable(name: string, touched: string[]): object {
  return new Proxy(
    {},
    {
      get: (_, part) => {
        if (typeof part === 'symbol' || part === 'limits') return undefined
        return (...given: unknown[]) => {
          touched.push(`${name}.${part}(${given.length})`)
          throw new Error(`${name}.${part} was asked without a user`)
        }
      }
    }
  )
}

/** The real routes over services of which none may be touched. */
function realRoutes(touched: string[]): Route[] {
  const parts = new Proxy(
    { config },
    { get: (known, name: string) => (name === 'config' ? known.config : untouchable(name, touched)) }
  )
  // Every service is there, and breaks when it is used.
  const services = parts as unknown as Services
  return routes(services, parts as unknown as AuthServices, {
    rooms: roomRoutes(services)
  })
}

/** Routes that only some projects have: they stand in no table. */
const OF_PROJECTS: Readonly<Record<string, Partial<Expected>>> = { 'POST /api/ui/{graph}': { body: { name: 'chart' } } }

t.test(
  '[Auth 5] with the guards taken out every route of the table answers 401, and no service is asked',
  async (t) => {
    const touched: string[] = []
    const guarded = realRoutes(touched).filter(({ access }) => access === 'user')
    t.ok(guarded.length > 60, `${guarded.length} routes`)
    // As if somebody had forgotten the session, the owner check and the CSRF header of all of them.
    const open = guarded.map(
      (route): Route => ({ ...route, access: 'public', csrf: 'exempt', thread: null, bodyLimit: 8192 })
    )
    const door = await openDoor(t, open)
    const place = nowhere()
    for (const { method, path, errors } of open) {
      const name = `${method} ${path}`
      const { query = '', body, headers = {} }: Partial<Expected> = EXPECTED[name] ?? OF_PROJECTS[name]!
      const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => place[name] ?? 'x')
      const answer = await door.knock(method, filled + query, { headers, ...(body !== undefined && { body }) })
      const said = { detail: { code: 'not_authenticated' }, message: 'Not authenticated' }
      // A protocol that is not ours says it in a form of its own.
      t.match(answer, { status: 401, ...(errors === 'contract' && { body: said }) }, `${method} ${path}`)
    }
    t.strictSame(touched, [])
    t.strictSame(door.logged, [])
  }
)
