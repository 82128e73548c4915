// Uploads and artifacts over HTTP: what goes in comes out, with the statuses of the contract, and never runs in our origin.
import { once } from 'node:events'
import { mkdir, readdir, readlink, symlink, truncate, writeFile } from 'node:fs/promises'
import { Agent, get, type IncomingMessage, request } from 'node:http'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { Artifacts } from '../../lib/files/artifacts.ts'
import { Paths } from '../../lib/files/paths.ts'
import { loadConfig } from '../../lib/config/config.ts'
import type { UploadLimits } from '../../lib/files/upload-receiver.ts'
import { Uploads } from '../../lib/files/uploads.ts'
import { artifactRoutes } from '../../lib/routes/artifacts.ts'
import type { Services } from '../../lib/routes/services.ts'
import { uploadRoutes } from '../../lib/routes/uploads.ts'
import { type KnockOptions, openDoor } from '../fixtures/door.ts'
import { type FilePart, FORM_TYPE, formOf, headOf } from '../fixtures/form.ts'

const LIMITS: UploadLimits = { max_files: 3, max_file_size: 1_000_000, max_total_size: 2_000_000, user_bytes: 0 }
const config = loadConfig({ home: '/nowhere', env: {}, cwd: '/nowhere' })
/** Every right stands, and threads are whose they were. */
const doubles = {
  isValid: async () => true,
  // Nothing else of the store is asked.
  store: { threads: { ownerOf: async () => 'u' }, holds: { isHeld: async () => false } } as unknown as Services['store']
}
const SAFETY = { 'x-content-type-options': 'nosniff', 'content-security-policy': "sandbox; default-src 'none'" }

const credentials = (as: string) => ({ cookie: `access_token=token-${as}; csrf_token=c`, 'x-csrf-token': 'c' })

/** `mine` is a thread of user `u`, `theirs` one of somebody else; every other id has no record. */
const open = async (t: Test) => {
  const paths = new Paths(t.testdir())
  const routes = [
    ...uploadRoutes({ uploads: new Uploads(paths, LIMITS), ...doubles }),
    ...artifactRoutes({ artifacts: new Artifacts(paths), config, store: doubles.store })
  ]
  const door = await openDoor(t, routes, { owners: { mine: 'u', theirs: 'v' } })
  return {
    door,
    paths,
    upload: (parts: readonly FilePart[], id = 'mine', as = 'u') =>
      door.knock('POST', `/api/threads/${id}/uploads`, {
        as,
        body: formOf(parts),
        headers: { 'content-type': FORM_TYPE }
      }),
    list: async (id = 'mine') => (await door.knock('GET', `/api/threads/${id}/uploads/list`, { as: 'u' })).body,
    artifact: (path: string, options: KnockOptions = {}, id = 'mine') =>
      door.knock('GET', `/api/threads/${id}/artifacts/${path}`, { as: 'u', ...options }),
    async put(path: string, content: string | Buffer) {
      const file = join(paths.userData('mine', 'u'), path)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, content)
      return file
    }
  }
}

/** Asked again and again: some ends are seen by nobody but the disk. */
const until = async (isSo: () => Promise<boolean>): Promise<void> => {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5))
}

t.test('what is uploaded is answered, listed, fetched under the URL that was answered, and deleted', async (t) => {
  const { door, upload, list } = await open(t)
  const virtual = '/mnt/user-data/uploads/ünï 1%41#?.txt'
  const url = '/api/threads/mine/artifacts/mnt/user-data/uploads/%C3%BCn%C3%AF%201%2541%23%3F.txt'
  const file = { filename: 'ünï 1%41#?.txt', size: 5, path: virtual, virtual_path: virtual, artifact_url: url }
  const answer = await upload([
    ['ünï 1%41#?.txt', 'hello'],
    ['..', 'x']
  ])
  t.match(answer, { status: 200 })
  t.strictSame(answer.body, {
    success: true,
    files: [file],
    message: 'Successfully uploaded 1 file(s)',
    skipped_files: ['..']
  })
  const { files, count } = await list()
  t.equal(count, 1)
  t.match(files, [{ ...file, extension: '.txt', modified: Number }])
  t.match(await door.knock('GET', url, { as: 'u' }), { status: 200, text: 'hello' })
  const path = `/api/threads/mine/uploads/${encodeURIComponent(file.filename)}`
  t.match(await door.knock('DELETE', path, { as: 'u' }), {
    status: 200,
    body: { success: true, message: `Deleted ${file.filename}` }
  })
  t.match(await door.knock('DELETE', path, { as: 'u' }), {
    status: 404,
    body: { detail: `File not found: ${file.filename}` }
  })
  t.strictSame(await list(), { files: [], count: 0 })
})

t.test('a renamed file tells the name it came with', async (t) => {
  const { upload } = await open(t)
  const answer = await upload([
    ['a.txt', '1'],
    ['a.txt', '2']
  ])
  t.match(answer.body.files, [{ filename: 'a.txt' }, { filename: 'a_1.txt', original_filename: 'a.txt' }])
})

t.test('the limits are told', async (t) => {
  const { door } = await open(t)
  t.strictSame((await door.knock('GET', '/api/threads/mine/uploads/limits', { as: 'u' })).body, LIMITS)
})

t.test('a file may be called list or limits', async (t) => {
  const { door, upload, list } = await open(t)
  await upload([['list', 'x']])
  t.equal((await door.knock('DELETE', '/api/threads/mine/uploads/list', { as: 'u' })).status, 200)
  t.equal((await list()).count, 0)
})

t.test('a body that is no form with files is refused with the reason', async (t) => {
  const { door, upload } = await open(t)
  const send = (body: string | Buffer, type: string) =>
    door.knock('POST', '/api/threads/mine/uploads', { as: 'u', body, headers: { 'content-type': type } })
  const missing = { status: 422, body: { detail: [{ type: 'missing', loc: ['body', 'files'] }] } }
  t.match(await upload([]), missing)
  t.match(await send('{"files":[]}', 'application/json'), missing)
  t.match(await door.knock('POST', '/api/threads/mine/uploads', { as: 'u' }), missing)
  t.match(await upload([['', '']]), { status: 400, body: { detail: 'No files provided' } })
  t.match(await send(headOf('a.txt'), FORM_TYPE), { status: 400, body: { detail: /malformed/ } })
  t.match(await send('x', 'multipart/form-data'), { status: 400, body: { detail: /malformed/ } })
})

t.test(
  'what is over a limit is 413, also for a client that does not stop sending, and the next request is served',
  async (t) => {
    const { door, upload, list } = await open(t)
    t.match(
      await upload([
        ['1', ''],
        ['2', ''],
        ['3', ''],
        ['4', '']
      ]),
      { status: 413, body: { detail: 'Too many files: at most 3 in one request' } }
    )
    const large = Buffer.alloc(1_000_001)
    t.match(await upload([['large', large]]), { status: 413, body: { detail: /1000000 bytes/ } })
    const all = [1, 2, 3].map((i): FilePart => [`${i}`, large.subarray(0, 900_000)])
    t.match(await upload(all), { status: 413, body: { detail: /2000000 bytes/ } })
    t.match(await upload([['huge', Buffer.alloc(20_000_000)]]), { status: 413 })
    const req = request({
      port: door.port,
      method: 'POST',
      path: '/api/threads/mine/uploads',
      headers: { ...credentials('u'), 'content-type': FORM_TYPE }
    })
    req.on('error', () => {})
    req.write(headOf('endless'))
    const more = () => {
      while (req.write(large));
    }
    req.on('drain', more)
    more()
    const [res]: IncomingMessage[] = await once(req, 'response')
    t.equal(res?.statusCode, 413)
    req.destroy()
    t.equal((await list()).count, 0)
    t.equal((await upload([['a', 'x']])).status, 200)
  }
)

t.test('a connection lives on after an upload', async (t) => {
  const { door, list } = await open(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ports = new Set<number | undefined>()
  for (const name of ['a', 'b', 'c']) {
    const body = formOf([[name, Buffer.alloc(300_000)]])
    const req = request({
      port: door.port,
      agent,
      method: 'POST',
      path: '/api/threads/mine/uploads',
      headers: { ...credentials('u'), 'content-type': FORM_TYPE, 'content-length': String(body.length) }
    })
    req.end(body)
    const [res]: IncomingMessage[] = await once(req, 'response')
    ports.add(res?.socket.localPort)
    t.equal(res?.statusCode, 200)
    res?.resume()
    await once(res!, 'end')
  }
  t.equal(ports.size, 1)
  t.equal((await list()).count, 3)
})

t.test('a client that goes away in the middle of an upload leaves nothing', async (t) => {
  const { door, paths, list } = await open(t)
  const socket = await door.connect()
  const head = `POST /api/threads/mine/uploads HTTP/1.1\r\nHost: x\r\nCookie: access_token=token-u; csrf_token=c\r\n`
  socket.write(
    `${head}X-CSRF-Token: c\r\nContent-Type: ${FORM_TYPE}\r\nContent-Length: 100000\r\n\r\n${headOf('a.txt')}x`
  )
  const drafts = async () => (await readdir(paths.incoming('u')).catch(() => [])).length
  await until(async () => (await drafts()) === 1)
  socket.resetAndDestroy()
  await until(async () => (await drafts()) === 0)
  t.equal((await list()).count, 0)
  t.strictSame(door.logged, [])
})

t.test('a thread may be filled before it has a record; each user sees the own files alone', async (t) => {
  const { door, upload, list, artifact } = await open(t)
  t.equal((await upload([['a.txt', 'mine']], 'new')).status, 200)
  t.equal((await list('new')).count, 1)
  t.equal((await artifact('mnt/user-data/uploads/a.txt', {}, 'new')).text, 'mine')
  t.strictSame((await door.knock('GET', '/api/threads/new/uploads/list', { as: 'v' })).body, { files: [], count: 0 })
  t.equal((await artifact('mnt/user-data/uploads/a.txt', { as: 'v' }, 'new')).status, 404)
})

t.test("[Auth 6] nothing goes into another one's thread and nothing comes out", async (t) => {
  const { door, upload } = await open(t)
  t.equal((await upload([['a.txt', 'x']], 'theirs', 'v')).status, 200)
  const path = '/api/threads/theirs'
  t.match(await upload([['a.txt', 'x']], 'theirs'), { status: 404, body: { detail: 'Thread theirs not found' } })
  for (const [method, rest] of [
    ['GET', 'uploads/list'],
    ['GET', 'uploads/limits'],
    ['DELETE', 'uploads/a.txt'],
    ['GET', 'artifacts/mnt/user-data/uploads/a.txt']
  ] as const) {
    t.match(await door.knock(method, `${path}/${rest}`, { as: 'u' }), {
      status: 404,
      body: { detail: 'Thread theirs not found' }
    })
  }
  t.equal((await door.knock('DELETE', '/api/threads/new/uploads/a.txt', { as: 'u' })).status, 404)
})

t.test('what is no name deletes nothing', async (t) => {
  const { door, put, artifact } = await open(t)
  await put('outputs/safe.txt', 'safe')
  const removed = async (name: string) =>
    (await door.knock('DELETE', `/api/threads/mine/uploads/${name}`, { as: 'u' })).status
  for (const name of ['..%2foutputs%2fsafe.txt', '..%5coutputs%5csafe.txt', '%00', '%2e%2e', '%2e'])
    t.equal(await removed(name), 400, name)
  // A plain dot segment is none in any URL: there is no such route.
  t.equal(await removed('.'), 405)
  t.equal((await artifact('mnt/user-data/outputs/safe.txt')).text, 'safe')
})

// ------------------------------------------------------------------------------------------------ artifacts

t.test('paths that lead nowhere are told apart, and no answer says where the home is', async (t) => {
  const { artifact, paths, put } = await open(t)
  const outputs = dirname(await put('outputs/a.txt', 'x'))
  await writeFile(join(paths.home, 'secret.txt'), 'secret')
  await symlink(join(paths.home, 'secret.txt'), join(outputs, 'link.txt'))
  for (const [path, status, detail] of [
    ['etc/passwd', 400, 'Path must start with /mnt/user-data'],
    ['mnt/user-dataX/a.txt', 400, 'Path must start with /mnt/user-data'],
    ['mnt/user-data/outputs/none.txt', 404, 'Artifact not found: mnt/user-data/outputs/none.txt'],
    ['mnt/user-data/outputs', 400, 'Path is not a file: mnt/user-data/outputs'],
    ['mnt/user-data/outputs/link.txt', 403, 'Access denied: path traversal detected'],
    ['mnt/user-data/..%2f..%2fsecret.txt', 403, 'Access denied: path traversal detected']
  ] as const) {
    const answer = await artifact(path)
    t.match(answer, { status, headers: SAFETY, body: { detail } }, path)
    t.notOk(answer.text.includes(paths.home))
  }
  t.equal((await artifact('/mnt/user-data/outputs/a.txt')).text, 'x', 'a slash before it is tolerated')
})

t.test('only what is inert is shown; every answer forbids guessing, scripts and loading', async (t) => {
  const { artifact, put } = await open(t)
  const page = '<html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>'
  const binary = Buffer.from([0, 1, 2, 3])
  const text = /^text\/plain; charset=utf-8$/
  for (const [name, content, type, shown] of [
    ['a.html', page, /html/, 'attachment'],
    ['A.HTML', page, /html/, 'attachment'],
    ['a.htm', page, /html/, 'attachment'],
    ['a.txt.html', page, /html/, 'attachment'],
    ['a.xhtml', page, /xhtml/, 'attachment'],
    ['a.xht', page, /xhtml/, 'attachment'],
    ['a.svg', page, /svg/, 'attachment'],
    ['a.SvgZ', page, /svg/, 'attachment'],
    ['a.xml', page, /xml/, 'attachment'],
    ['a.XSL', page, /xml/, 'attachment'],
    ['a.swf', binary, /octet-stream/, 'attachment'],
    ['a.unknown', binary, /octet-stream/, 'attachment'],
    ['noextension', binary, /octet-stream/, 'attachment'],
    ['constructor', binary, /octet-stream/, 'attachment'],
    // Text of no known kind is shown as its source, whatever it would like to be.
    ['a.unknown.page', page, text, ''],
    ['page', page, text, ''],
    ['.html', page, text, ''],
    ['a.rss', page, text, ''],
    ['a.js', 'alert(1)', text, ''],
    ['a.html.txt', page, text, ''],
    ['empty', '', text, ''],
    ['a.md', '# a', /^text\/markdown/, ''],
    ['a.csv', 'a', /^text\/csv/, ''],
    ['a.json', '{}', /^application\/json/, 'inline'],
    ['a.PNG', binary, /^image\/png/, 'inline'],
    ['a.webp', page, /^image\/webp/, 'inline'],
    ['a.pdf', '%PDF-1.4', /^application\/pdf/, 'inline'],
    ['a.mp4', binary, /^video\/mp4/, 'inline']
  ] as const) {
    await put(`outputs/${name}`, content)
    const answer = await artifact(`mnt/user-data/outputs/${name}`)
    t.match(answer, { status: 200, headers: { ...SAFETY, 'content-type': type } }, name)
    t.equal((answer.headers['content-disposition'] ?? '').split(';')[0], shown, name)
    const saved = await artifact(`mnt/user-data/outputs/${name}?download=true`)
    t.match(saved.headers['content-disposition'], /^attachment; /, name)
  }
})

t.test('a name cannot leave its place in Content-Disposition [RFC 6266]', async (t) => {
  const { artifact, put } = await open(t)
  for (const [name, encoded] of [
    ['naïve "x" file.png', 'na%C3%AFve%20%22x%22%20file.png'],
    ["it's (1)*.png", 'it%27s%20%281%29%2A.png'],
    ['a\r\nSet-Cookie: x=y.png', 'a%0D%0ASet-Cookie%3A%20x%3Dy.png'],
    ['🦜\u202egnp.exe.png', '%F0%9F%A6%9C%E2%80%AEgnp.exe.png'],
    ['a;b,c.png', 'a%3Bb%2Cc.png']
  ] as const) {
    await put(`outputs/${name}`, 'x')
    const answer = await artifact(`mnt/user-data/outputs/${encodeURIComponent(name)}?download=1`)
    t.equal(answer.headers['content-disposition'], `attachment; filename*=UTF-8''${encoded}`)
  }
  t.equal((await artifact('mnt/user-data/outputs/a?download=perhaps')).status, 422)
})

t.test(
  'one range is served, one outside is 416, and what is no single range is passed over; who has the file already is told so',
  async (t) => {
    const { artifact, put, door } = await open(t)
    await put('outputs/a.html', '0123456789')
    await put('outputs/empty', '')
    const path = 'mnt/user-data/outputs/a.html'
    const ask = (range: string, more: Record<string, string> = {}) => artifact(path, { headers: { range, ...more } })
    for (const [range, text, content] of [
      ['bytes=0-3', '0123', 'bytes 0-3/10'],
      ['bytes=4-', '456789', 'bytes 4-9/10'],
      ['bytes=-2', '89', 'bytes 8-9/10'],
      ['bytes=-100', '0123456789', 'bytes 0-9/10'],
      ['Bytes=9-99999999999999999999', '9', 'bytes 9-9/10']
    ] as const) {
      const headers = { ...SAFETY, 'content-range': content, 'content-length': String(text.length) }
      t.match(await ask(range), { status: 206, text, headers }, range)
    }
    for (const range of ['bytes=10-', 'bytes=99-100', 'bytes=-0', `bytes=${'9'.repeat(400)}-`]) {
      t.match(await ask(range), { status: 416, headers: { ...SAFETY, 'content-range': 'bytes */10' } }, range)
    }
    for (const range of [
      'bytes=5-2',
      'bytes=x-y',
      'bytes=-',
      'lines=1-2',
      'bytes',
      '',
      'bytes=0-1,4-5',
      'bytes=0-1-2'
    ]) {
      t.match(await ask(range), { status: 200, text: '0123456789', headers: { 'accept-ranges': 'bytes' } }, range)
    }
    const { etag = '' } = (await artifact(path)).headers
    t.equal((await ask('bytes=0-3', { 'if-range': etag })).status, 206)
    for (const held of [etag, `W/${etag}`, `"other", ${etag}`, '*'])
      t.match(
        await artifact(path, { headers: { 'if-none-match': held } }),
        { status: 304, text: '', headers: { etag, 'cache-control': 'private, no-cache' } },
        held
      )
    t.match(await artifact(path, { headers: { 'if-none-match': '"other"' } }), { status: 200, text: '0123456789' })
    await put('outputs/a.html', 'abcdefghij')
    t.match(
      await ask('bytes=0-3', { 'if-range': etag }),
      { status: 200, text: 'abcdefghij' },
      'no part of another file'
    )
    const empty = await artifact('mnt/user-data/outputs/empty', { headers: { range: 'bytes=0-' } })
    t.match(empty, { status: 416, headers: { 'content-range': 'bytes */0' } })
    t.match(
      await door.knock('HEAD', `/api/threads/mine/artifacts/${path}`, { as: 'u', headers: { range: 'bytes=0-3' } }),
      { status: 200, text: '', headers: { ...SAFETY, 'content-length': '10' } }
    )
  }
)

t.test('a file that becomes shorter while it is sent is broken off, not ended', async (t) => {
  const { door, put } = await open(t)
  const path = 'mnt/user-data/outputs/large.bin'
  const file = await put('outputs/large.bin', '')
  // More than all buffers on the way can hold.
  await truncate(file, 64 * 1024 * 1024)
  const req = get({ port: door.port, path: `/api/threads/mine/artifacts/${path}`, headers: credentials('u') })
  const [res]: IncomingMessage[] = await once(req, 'response')
  await truncate(file, 1000)
  res!.resume()
  await t.rejects(once(res!, 'end'), { code: 'ECONNRESET' })
  await until(async () => door.logged.length === 1)
})

t.test('a client that goes away in the middle of a download leaves no open file', async (t) => {
  const { door, put } = await open(t)
  const file = await put('outputs/large.bin', '')
  await truncate(file, 64 * 1024 * 1024)
  const openFiles = async () => {
    const fds = await readdir('/proc/self/fd')
    const targets = await Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
    return targets.filter((target) => target === file).length
  }
  const path = '/api/threads/mine/artifacts/mnt/user-data/outputs/large.bin'
  const req = get({ port: door.port, path, headers: credentials('u') })
  await once(req, 'response')
  t.equal(await openFiles(), 1)
  req.on('error', () => {})
  req.destroy()
  await until(async () => (await openFiles()) === 0)
  t.strictSame(door.logged, [])
})
