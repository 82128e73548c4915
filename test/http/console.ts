// The page as it is handed out: with rules that let nothing foreign in, kept by browsers, compressed ahead, and out of the API's way.
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { request } from 'node:http'
import t from 'tap'
import { openSite } from '../fixtures/gateway.ts'

const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

interface Got {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly bytes: Buffer
}

/** As it comes: fetch would decompress it. */
function get(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  return new Promise((resolve, reject) => {
    const req = request(url, { method, headers }, (res) => {
      const parts: Buffer[] = []
      res.on('data', (part: Buffer) => parts.push(part))
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, bytes: Buffer.concat(parts) }))
    })
    req.on('error', reject).end()
  })
}

/** Paths of all that the page loads before anybody has signed in. */
function loadedBy(html: string): string[] {
  return [...html.matchAll(/(?:href|src)="(\/[^"]+)"/g)].map(([, path]) => path!)
}

t.test('a browser gets the page, and a client that asks for JSON gets JSON', async (t) => {
  const { url } = await openSite(t)
  const page = await get(url, HTML)
  t.equal(page.status, 200)
  t.match(page.headers['content-type'], /^text\/html/)
  t.match(page.bytes.toString(), /<script type="module" src="\/console\/[0-9a-f]{16}\/console\/main\.js">/)
  for (const headers of [{}, { accept: '*/*' }] as Record<string, string>[])
    t.match((await get(url, headers)).headers['content-type'], /^text\/html/, 'so does who takes anything')
  for (const accept of [
    'application/json',
    'application/json, */*;q=0.1',
    'Application/JSON',
    'application/json, text/html;q=0'
  ]) {
    const { status, bytes } = await get(url, { accept })
    t.match([status, JSON.parse(bytes.toString())], [200, { service: 'colloquy' }])
  }
})

t.test('the page lets nothing in but its own files: no inline script, no eval, no frame around it', async (t) => {
  const { url } = await openSite(t)
  const { headers, bytes } = await get(url, HTML)
  const policy = String(headers['content-security-policy'])
  t.notMatch(policy, /unsafe|\*|https?:/)
  for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "connect-src 'self'"])
    t.ok(policy.includes(rule), rule)
  t.notMatch(bytes.toString(), /<script(?![^>]*src=)|<style| on\w+=| style=/)
  t.equal(headers['x-content-type-options'], 'nosniff')
})

t.test('the place for documents of agents has no origin, runs their scripts and reaches nothing', async (t) => {
  const { url } = await openSite(t)
  const { headers } = await get(`${url}/console/sandbox`)
  const policy = String(headers['content-security-policy'])
  t.match(policy, /^sandbox allow-scripts/)
  t.notMatch(policy, /allow-same-origin|connect-src|https?:/)
  t.match(policy, /default-src 'none'/)
})

t.test('files are kept for ever under their digest, the page is asked for anew and answered with 304', async (t) => {
  const { url } = await openSite(t)
  const page = await get(url, HTML)
  t.equal(page.headers['cache-control'], 'no-cache')
  const again = await get(url, { ...HTML, 'if-none-match': String(page.headers.etag) })
  t.strictSame([again.status, again.bytes.length], [304, 0])
  for (const path of loadedBy(page.bytes.toString())) {
    const { status, headers } = await get(url + path)
    t.equal(status, 200, path)
    t.match(headers['cache-control'], /immutable/, path)
    t.equal((await get(url + path, { 'if-none-match': String(headers.etag) })).status, 304)
  }
})

t.test('an answer comes in the best encoding that its client takes, and is the same in each', async (t) => {
  const { url } = await openSite(t)
  const plain = await get(`${url}/colloquy.js`)
  const br = await get(`${url}/colloquy.js`, { 'accept-encoding': 'gzip, deflate, br' })
  const gzip = await get(`${url}/colloquy.js`, { 'accept-encoding': 'gzip, br;q=0' })
  t.strictSame(
    [plain, br, gzip].map(({ headers }) => headers['content-encoding']),
    [undefined, 'br', 'gzip']
  )
  t.ok(brotliDecompressSync(br.bytes).equals(plain.bytes))
  t.ok(gunzipSync(gzip.bytes).equals(plain.bytes))
  t.equal(new Set([plain, br, gzip].map(({ headers }) => headers.etag)).size, 3)
  const head = await get(`${url}/colloquy.js`, {}, 'HEAD')
  t.strictSame([head.status, head.bytes.length], [200, 0])
  t.equal(head.headers['content-length'], String(plain.bytes.length))
})

t.test('the first load is at most 150 KB', async (t) => {
  const { url } = await openSite(t)
  const page = await get(url, { ...HTML, 'accept-encoding': 'br' })
  let size = page.bytes.length
  for (const path of loadedBy(brotliDecompressSync(page.bytes).toString()))
    size += (await get(url + path, { 'accept-encoding': 'br' })).bytes.length
  t.ok(size <= 150 * 1024, `${size} bytes`)
})

t.test('no path leads out of the folder, and what is not there is 404', async (t) => {
  const { url } = await openSite(t)
  for (const path of [
    '/console/../routes/console.js',
    '/console/%2e%2e/%2e%2e/package.json',
    '/console/x',
    '/console/index.html.br'
  ])
    t.ok([401, 404].includes((await get(url + path)).status), path)
})

t.test('console.enabled false takes the page away', async (t) => {
  const { url } = await openSite(t, { config: { console: { enabled: false } } })
  for (const path of ['/', '/docs', '/colloquy.js', '/console/sandbox'])
    t.not((await get(url + path, HTML)).status, 200, path)
})
