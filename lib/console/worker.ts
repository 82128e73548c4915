// The service worker: the page's own files, so that it opens without a server. It keeps nothing of anybody's conversations.
//
// The build puts its files in place of the marks. A new build is another worker, which the next reload uses.

/** What a worker needs of its scope: the types of pages know none. */
interface WorkerScope {
  readonly caches: CacheStorage
  readonly clients: {
    claim(): Promise<void>
    matchAll(which: { type: 'window' }): Promise<readonly Page[]>
    openWindow(url: string): Promise<unknown>
  }
  readonly registration: ServiceWorkerRegistration
  skipWaiting(): Promise<void>
  addEventListener(type: 'push', listener: (event: Pushed) => void): void
  addEventListener(type: 'notificationclick', listener: (event: Clicked) => void): void
  addEventListener(type: 'install' | 'activate', listener: (event: Lasting) => void): void
  addEventListener(type: 'fetch', listener: (event: Fetching) => void): void
}
interface Lasting {
  waitUntil(work: Promise<unknown>): void
}
interface Page {
  readonly visibilityState: string
  focus(): Promise<unknown>
  navigate(url: string): Promise<unknown>
}
interface Pushed extends Lasting {
  readonly data: { json(): { readonly kind: string; readonly thread_id: string } } | null
}
interface Clicked extends Lasting {
  readonly notification: Notification
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

  /** What a push says, by the browser's language: its words lie in no page. */
  const WORDS: Readonly<Record<string, readonly [string, string]>> = {
    en: ['The answer is there.', 'The agent asks you something.'],
    de: ['Die Antwort ist da.', 'Der Agent fragt dich etwas.'],
    zh: ['答案已经准备好了。', '智能体有问题要问你。']
  }

  scope.addEventListener('push', (event) => {
    const show = async () => {
      const { kind, thread_id } = event.data?.json() ?? { kind: 'done', thread_id: '' }
      const pages = await scope.clients.matchAll({ type: 'window' })
      // Who looks at the page sees it there.
      if (pages.some(({ visibilityState }) => visibilityState === 'visible')) return
      const [done, asks] = WORDS[navigator.language.slice(0, 2)] ?? WORDS.en!
      // A page that is hidden says the same under the same tag.
      const options = { body: kind === 'asks' ? asks : done, tag: thread_id, data: thread_id }
      await scope.registration.showNotification('Colloquy', options)
    }
    event.waitUntil(show())
  })

  scope.addEventListener('notificationclick', (event) => {
    const { notification } = event
    notification.close()
    const url = `${ROOT}#/t/${encodeURIComponent(String(notification.data))}`
    const open = async () => {
      const [page] = await scope.clients.matchAll({ type: 'window' })
      if (!page) return void (await scope.clients.openWindow(url))
      await page.focus()
      await page.navigate(url)
    }
    event.waitUntil(open())
  })

  /** The server's page; the kept one where there is none, or none comes soon. A proxy answers for a server that is away. */
  async function page(request: Request): Promise<Response> {
    const kept = await scope.caches.match(ROOT)
    const fresh = fetch(request)
    if (!kept) return fresh
    const late = new Promise<Response>((resolve) => setTimeout(() => resolve(kept), PATIENCE_MS))
    const there = fresh.then(
      (answer) => (answer.status < 502 ? answer : kept),
      () => kept
    )
    return Promise.race([there, late])
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
