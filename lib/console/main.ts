// Entry point of the page.
import { render } from 'preact'
import { spoken } from './announce.ts'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { Shell } from './shell.ts'
import { place } from './router.ts'
import { begin, stage, wantsSession } from './session.ts'
import { Toasts } from './toast.ts'
import { useEffect } from 'preact/hooks'
import { link } from './api.ts'
import { Later } from './later.ts'
import { markdown } from './message.ts'
import { keepWords, loadWords, t } from './words.ts'

/** How long after it has loaded a page is at rest, in ms. */
const REST_MS = 1000

function Page() {
  return html`<${View} />
    <${Toasts} />
    <div class="spoken" aria-live="polite" role="log">${spoken.value}</div>`
}

const shared = () => import('./shared.ts')
const door = () => import('./door.ts')

function View() {
  if (link !== null && !wantsSession.value) return html`<${Later} load=${shared} props=${{}} />`
  switch (stage.value) {
    case 'loading':
      // What the page says by itself until its modules are here.
      return html`<p class="first">Colloquy</p>`
    case 'unreachable':
      return html`<${Unreachable} />`
    case 'setup':
    case 'out':
      return html`<${Later} load=${door} props=${{}} />`
    case 'in':
      return html`<${Shell} />`
  }
}

// Only where the page is a secure one; without it the page is as it is.
if ('serviceWorker' in navigator)
  addEventListener('load', () => void navigator.serviceWorker.register(`${BASE}/sw.js`).then(keepWords, () => {}))

// What the first answer will need, once the page is at rest.
addEventListener('load', () => setTimeout(() => void markdown().catch(() => {}), REST_MS))
if (place.value.view === 'thread') void markdown().catch(() => {})

await loadWords()
render(html`<${Page} />`, document.getElementById('app')!)
if (link === null) void begin()

const AGAIN_MS = 3000

/** The page is there, its server is not: it comes back by itself. */
function Unreachable() {
  useEffect(() => {
    const timer = setInterval(() => void begin(), AGAIN_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<main class="door"><div class="card"><h1>The server does not answer</h1><p class="lead">${navigator.onLine ? t('It may be starting.') : t('You are offline.')} This page goes on as soon as it is back, with what you have written.</p><button class="primary wide" onClick=${() => void begin()}>Try now</button></div></main>`
}
