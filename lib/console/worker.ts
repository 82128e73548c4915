// The service worker: the page's own files, so that it opens without a server. It keeps nothing of anybody's conversations.
//
// The build puts its files in place of the marks. A new build is another worker, which the next reload uses.

/** What a worker needs of its scope: the types of pages know none. */
interface WorkerScope {
  readonly caches: CacheStorage
  readonly clients: { claim(): Promise<void> }
  skipWaiting(): Promise<void>
  addEventListener(type: 'install' | 'activate', listener: (event: Lasting) => void): void
  addEventListener(type: 'fetch', listener: (event: Fetching) => void): void
}
interface Lasting {
  waitUntil(work: Promise<unknown>): void
}
interface Fetching extends Lasting {
  readonly request: Request
  respondWith(answer: Promise<Response>): void
}

{
  // A worker's global scope has what is named above.
  const scope = globalThis as unknown as WorkerScope
  /** This worker lies at the root of the gateway, which may be below a path of the server. */
  const ROOT = new URL('./', location.href).pathname
  const BUILD = ROOT + '{{base}}'.slice(1)
  const FILES = '{{files}}'.split(' ').map((path) => ROOT + path.slice(1))
  /** How long the server has to send the page before the kept one is shown, in ms. */
  const PATIENCE_MS = 3000

  scope.addEventListener('install', (event) => {
    const keep = async () => (await scope.caches.open(BUILD)).addAll([ROOT, ...FILES])
    event.waitUntil(keep().then(() => scope.skipWaiting()))
  })

  scope.addEventListener('activate', (event) => {
    const clean = async () => {
      const names = await scope.caches.keys()
      // Another gateway below another path of this server has caches of its own.
      const isOld = (name: string) => name !== BUILD && name.startsWith(`${ROOT}console/`)
      await Promise.all(names.filter(isOld).map((name) => scope.caches.delete(name)))
      await scope.clients.claim()
    }
    event.waitUntil(clean())
  })

  scope.addEventListener('fetch', (event) => {
    const { method, mode, url } = event.request
    const { origin, pathname } = new URL(url)
    if (method !== 'GET' || origin !== location.origin) return
    if (mode === 'navigate' && pathname === ROOT) event.respondWith(page(event.request))
    else if (pathname.startsWith(`${BUILD}/`)) event.respondWith(file(event.request))
  })

  /** The server's page; the kept one where there is none, or none comes soon. */
  async function page(request: Request): Promise<Response> {
    const kept = await scope.caches.match(ROOT)
    const fresh = fetch(request)
    if (!kept) return fresh
    const late = new Promise<Response>((resolve) => setTimeout(() => resolve(kept), PATIENCE_MS))
    return Promise.race([fresh.catch(() => kept), late])
  }

  /** Files of this build never change. */
  async function file(request: Request): Promise<Response> {
    const kept = await scope.caches.match(request.url)
    if (kept) return kept
    const answer = await fetch(request)
    if (answer.ok) await (await scope.caches.open(BUILD)).put(request.url, answer.clone())
    return answer
  }
}
