// Requests that schemathesis makes up of the description of the API, thousands of them: none is answered by a 5xx, by a status or a
// form that is not described, or by a body, an event or a header outside its schema.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Agent } from '../../lib/agent/runtime.ts'
import { openSite, PASSWORD, Person } from '../fixtures/gateway.ts'
import { furnished } from '../fixtures/place.ts'
import { pythonWith } from '../fixtures/python.ts'
import { IS_LONG } from '../fixtures/size.ts'

/** The hooks lie beside the source this file was compiled from. */
const HOOKS = fileURLToPath(new URL('../../../test/client/python/', import.meta.url))
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance'
]
/** Sign-ins by providers are 501 until there are some, and say so. */
const NOT_YET = ['get_auth_oauth_provider', 'get_auth_callback_provider']
/** In npm test a few of every operation; the long form goes through the edges of every schema and through chains of calls. */
const SIZE = IS_LONG
  ? ['--max-examples', '90', '--phases', 'examples,coverage,fuzzing,stateful']
  : ['--max-examples', '3', '--phases', 'fuzzing', '--seed', '1']

const python = await pythonWith('schemathesis', 'schemathesis==4.32.5')
const skip = 'reason' in python && python.reason
const agent: Agent = {
  start: async (_input, sink) => void sink.emit({ type: 'custom', data: { percent: 50 } }),
  models: () => []
}

t.test('no request that fits the description is answered outside of it', { skip, timeout: 3_000_000 }, async (t) => {
  const site = await openSite(t, { agent, config: { streams: { per_user: 0 } } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const places = await Promise.all(Array.from({ length: 5 }, () => furnished(admin, 'sqlite')))
  const { cookie = '', 'x-csrf-token': csrf = '' } = admin.headers()
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-schemathesis-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const args = [
    'run',
    `${site.url}/openapi.json`,
    '--checks',
    CHECKS.join(),
    '--no-color',
    '--continue-on-failure',
    ...SIZE
  ]
  const told = await new Promise<string>((resolve) => {
    const env = {
      PATH: process.env.PATH,
      PYTHONPATH: HOOKS,
      SCHEMATHESIS_HOOKS: 'openapi',
      PLACES: JSON.stringify(places),
      // Hundreds of streams that have no end; a machine that tests at length does nothing else.
      STREAM_SECONDS: IS_LONG ? '0.4' : '3'
    }
    execFile(
      join('bin' in python ? python.bin : '', 'python'),
      ['-m', 'schemathesis.cli', ...args, ...NOT_YET.flatMap((id) => ['--exclude-operation-id', id])],
      { cwd: folder, env: { ...env, PYTHONDONTWRITEBYTECODE: '1', COOKIE: cookie, CSRF: csrf }, maxBuffer: 1 << 28 },
      (error, stdout, stderr) => resolve(stdout + stderr || String(error))
    )
  })
  const [, cases = '0', verdict = ''] = /Test cases:\s+(\d+) generated, (.*)/.exec(told) ?? []
  t.comment(`${cases} cases: ${verdict}`)
  t.ok(Number(cases) >= (IS_LONG ? 10_000 : 250), `${cases} cases: ${told.length > 0 ? '' : 'it said nothing'}`)
  const findings = told.slice(Math.max(0, told.search(/FAILURES|ERRORS/)))
  t.match(verdict, /^\d+ passed(, \d+ skipped)?$/, findings.slice(0, 6000))
  t.equal((await admin.get('/api/v1/auth/me')).status, 200, 'the session that it asked with still stands')
  t.same(
    site.logged.filter(([level]) => level === 'error'),
    []
  )
})
