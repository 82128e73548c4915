// Serves the page at `/` and its files, as built by bin/build-page.ts.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { fail } from '../base/errors.ts'
import { type Asset, sendAsset } from '../http/asset.ts'
import { type Call, HANDLED, type Reply, route, type Route } from '../http/route.ts'
import { basePathOf } from '../http/base-path.ts'
import { acceptedTypes } from '../http/request.ts'
import { file, shaped, text } from './answers.ts'
import type { Services } from './services.ts'

/** This file is compiled to dist/lib/routes. */
const FOLDER = fileURLToPath(new URL('../../public/', import.meta.url))

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.webmanifest': 'application/manifest+json'
}

/** CSP: only our own files run or load, nothing is sent elsewhere, and nobody frames us. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "frame-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'"
].join('; ')

const PAGE_HEADERS = {
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), microphone=(), geolocation=()'
}

/**
 * The sandbox for documents of agents: an opaque origin whose scripts may run but reach nothing. It cannot be a
 * document of the page itself, which would inherit the page's CSP.
 */
const SANDBOX_HEADERS = {
  'Content-Security-Policy':
    "sandbox allow-scripts allow-modals; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; frame-ancestors 'self'",
  'Referrer-Policy': 'no-referrer'
}

export function consoleRoutes({ config }: Pick<Services, 'config'>): Route[] {
  if (!config.console.enabled)
    return [
      route({
        method: 'GET',
        access: 'public',
        rule: null,
        path: '/sw.js',
        summary: 'Takes the service worker of a page that is gone away',
        answers: file('text/javascript'),
        handler: gone
      })
    ]
  let read: ReadonlyMap<string, Asset> | null = null
  const below = pagesBelow()
  let library: { readonly asset: Asset | null } | null = null
  const send = (call: Call, path: string): typeof HANDLED => {
    read ??= assetsIn(FOLDER)
    const asset = read.get(path)
    if (!asset) throw fail('not_found')
    const base = basePathOf(call.req)
    sendAsset(call.req, call.res, base !== '' && path.endsWith('.html') ? below(base, path, asset) : asset)
    return HANDLED
  }

  /** The page; clients that accept JSON get links to the API's description. */
  const home = (call: Call): Reply | typeof HANDLED => {
    const types = acceptedTypes(call.req)
    if (types.includes('text/html') || !types.some((type) => type.includes('json'))) return send(call, 'index.html')
    const base = basePathOf(call.req)
    return {
      json: {
        service: 'colloquy',
        openapi: `${base}/openapi.json`,
        docs: `${base}/docs`,
        client: `${base}/colloquy.js`
      },
      headers: { Vary: 'Accept' }
    }
  }

  /** The optional library that draws diagrams, where the operator has installed it; an empty answer tells the page that there is none. */
  const diagrams = (call: Call): Reply | typeof HANDLED => {
    library ??= { asset: diagramAsset() }
    if (!library.asset) return { status: 204 }
    sendAsset(call.req, call.res, library.asset)
    return HANDLED
  }

  const open = { method: 'GET', access: 'public', rule: null } as const
  const links = shaped({ service: text, openapi: text, docs: text, client: text })
  return [
    route({
      ...open,
      path: '/',
      summary: 'The page in a browser; a few links as JSON',
      answers: { 200: { schema: links, also: { 'text/html': text }, headers: { Vary: 'Accept' } }, 304: null },
      handler: home
    }),
    route({
      ...open,
      path: '/docs',
      summary: 'This reference as a page: search it, try calls, copy them as code',
      answers: file('text/html'),
      handler: (call) => send(call, 'docs.html')
    }),
    route({
      ...open,
      path: '/colloquy.js',
      summary: 'The client library for browsers',
      answers: file('text/javascript'),
      handler: (call) => send(call, 'colloquy.js')
    }),
    route({
      ...open,
      path: '/sw.js',
      summary: 'The service worker of the page',
      answers: file('text/javascript'),
      handler: (call) => send(call, 'sw.js')
    }),
    // Browsers request it when they show a response of the API.
    route({
      ...open,
      path: '/favicon.ico',
      summary: 'The icon of the page',
      answers: file('image/svg+xml'),
      handler: (call) => send(call, 'icon.svg')
    }),
    route({
      ...open,
      path: '/console/diagrams.js',
      summary: 'The optional library that draws diagrams; empty where it is not installed',
      answers: { ...file('text/javascript'), 204: null },
      handler: diagrams
    }),
    route({
      ...open,
      path: '/console/sandbox',
      summary: 'The sandbox in which the page shows HTML documents of agents',
      answers: file('text/html'),
      handler: (call) => send(call, 'sandbox.html')
    }),
    route({
      ...open,
      path: '/console/{path}',
      tail: true,
      summary: 'A file of the page',
      answers: file('text/javascript', 'text/css', 'image/svg+xml'),
      handler: (call) => send(call, `console/${call.params.path}`)
    })
  ]
}

/** So many are kept: base paths come from proxies that are trusted, and each has few. */
const BELOW_MAX = 32

/** A page as it is below a base path. */
function pagesBelow(): (base: string, path: string, page: Asset) => Asset {
  const made = new LRUCache<string, Asset>({ max: BELOW_MAX })
  return (base, path, page) => {
    const known = made.get(base + path)
    if (known) return known
    const plain = Buffer.from(page.plain.toString().replace(/(?<=\b(?:href|src)=")\/(?!\/)/g, `${base}/`))
    const asset = { ...page, tag: tagOf(plain), plain, encoded: new Map([['gzip', gzipSync(plain)]]) }
    made.set(base + path, asset)
    return asset
  }
}

/** Where the page is taken away, its service worker goes from the browsers that have it. */
const GONE =
  "addEventListener('install', () => skipWaiting())\naddEventListener('activate', (event) => event.waitUntil(registration.unregister()))\n"

function gone({ res }: Call): typeof HANDLED {
  res.writeHead(200, { 'Content-Type': TYPES['.js'], 'Cache-Control': 'no-cache' }).end(GONE)
  return HANDLED
}

/** The library of the optional peer `mermaid`, as it is installed; null: it is not. */
function diagramAsset(): Asset | null {
  try {
    const plain = readFileSync(createRequire(import.meta.url).resolve('mermaid/dist/mermaid.min.js'))
    const encoded = new Map([['gzip', gzipSync(plain)]])
    return { type: TYPES['.js']!, tag: tagOf(plain), plain, encoded, isImmutable: false, headers: {} }
  } catch {
    return null
  }
}

const tagOf = (plain: Buffer): string => `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`

/** Reads all files, a few hundred kilobytes. Empty if the page was not built. */
function assetsIn(folder: string): Map<string, Asset> {
  const names = list(folder)
  const files = names.filter((name) => extname(name) in TYPES)
  return new Map(files.map((name) => [name, assetOf(folder, name, new Set(names))]))
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'))
  } catch {
    return []
  }
}

function assetOf(folder: string, name: string, names: ReadonlySet<string>): Asset {
  const plain = readFileSync(join(folder, name))
  const encoded = new Map<string, Buffer>()
  for (const [encoding, ending] of [
    ['br', '.br'],
    ['gzip', '.gz']
  ] as const)
    if (names.has(name + ending)) encoded.set(encoding, readFileSync(join(folder, name + ending)))
  const isPage = name.endsWith('.html')
  return {
    type: TYPES[extname(name)]!,
    tag: tagOf(plain),
    plain,
    encoded,
    // The folder's name contains a digest of its content.
    isImmutable: name.startsWith('console/'),
    headers: isPage ? (name === 'sandbox.html' ? SANDBOX_HEADERS : PAGE_HEADERS) : {}
  }
}
