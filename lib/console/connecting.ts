// The connection to the active run: whether it is lost, stopping the run over it, and the notice of its loss.
import { batch, type ReadonlySignal, signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { type Connection, isFinal, type RunStream } from '../client/colloquy.ts'
import { call } from './api.ts'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { isAway, reach } from './session.ts'
import { notifyFailure } from './toast.ts'
import { t } from './words.ts'

/** Delay before a cancel is sent again, in ms. */
const CANCEL_AGAIN_MS = 1000

export class RunConnection {
  readonly now = signal<Connection>({ state: 'closed', failures: 0 })
  /** Since when there is none although there should be, as Date.now. */
  readonly lostSince = signal<number | null>(null)
  /** The user has stopped the run, and the server does not know yet. */
  readonly isStopping = signal(false)
  /** When the run was last heard of, as Date.now. */
  lastSign = Date.now()
  #cancelAbort: AbortController | null = null

  heard(): void {
    this.lastSign = Date.now()
  }

  changed(now: Connection): void {
    const isLost = now.state === 'waiting' || now.state === 'connecting'
    batch(() => {
      this.now.value = now
      this.lostSince.value = isLost ? (this.lostSince.value ?? Date.now()) : null
    })
    if (now.state !== 'open') return
    this.heard()
    this.sendAgain()
  }

  /** The run is over, or not followed any more. */
  closed(): void {
    this.changed({ state: 'closed', failures: 0 })
    this.sendAgain()
  }

  /** A cancel that hangs is given up, and sent again at once. */
  sendAgain(): void {
    this.#cancelAbort?.abort()
  }

  /** Cancels the run as soon as the server can be reached. `isOver`: there is nothing to cancel any more. */
  async stop(path: string, { started }: RunStream, isOver: () => boolean): Promise<void> {
    this.isStopping.value = true
    const run = await started.catch(() => null)
    while (run && !isOver() && !(await this.#cancel(`${path}/${run.run_id}/cancel?action=interrupt`)));
    this.isStopping.value = false
  }

  /** False: the server was not reached, and the time until the next attempt is over. */
  async #cancel(path: string): Promise<boolean> {
    const abort = new AbortController()
    this.#cancelAbort = abort
    try {
      await call('POST', path, undefined, abort.signal)
      return true
    } catch (error) {
      if (!isFinal(error)) return await wait(CANCEL_AGAIN_MS, abort.signal)
      // 409: the run has just ended by itself.
      if (error.status !== 409) notifyFailure(error)
      return true
    } finally {
      this.#cancelAbort = null
    }
  }
}

/** Resolves with false after `ms`, or when `signal` is aborted. */
function wait(ms: number, signal: AbortSignal): Promise<false> {
  return new Promise((resolve) => {
    const done = () => resolve(false)
    if (signal.aborted) return done()
    setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
}

/** A shorter loss is not shown, because it usually recovers at once. */
const SHOWN_AFTER_MS = 1000
/** How often a lost server is asked what it is about, in ms, and how long it may take to answer. */
const ASK_MS = 3000
/** A sign that is older than this is told, in s. */
const OLD_SIGN_S = 5

type Trouble = 'offline' | 'not-ready' | 'silent' | 'unreachable'

const troubles = (): Readonly<Record<Trouble, string>> => ({
  offline: t('You are offline'),
  'not-ready': t('The server is there, but not ready: it is starting, or its database is away'),
  silent: t('The server is there, but this connection is silent'),
  unreachable: t('The connection is lost')
})

/** What is wrong, as far as it can be seen from here. */
async function lookAround(): Promise<Trouble> {
  if (!navigator.onLine) return 'offline'
  const answer = await fetch(`${BASE}/readyz`, { signal: AbortSignal.timeout(ASK_MS), cache: 'no-store' }).catch(
    () => null
  )
  if (!answer) return navigator.onLine ? 'unreachable' : 'offline'
  if (answer.status === 503) return 'not-ready'
  // A proxy answers for a server that is away.
  return answer.ok ? 'silent' : 'unreachable'
}

function useTrouble(isLost: boolean): Trouble {
  const [trouble, setTrouble] = useState<Trouble>('unreachable')
  useEffect(() => {
    if (!isLost) return
    const look = () => void lookAround().then(setTrouble)
    look()
    const timer = setInterval(look, ASK_MS)
    return () => clearInterval(timer)
  }, [isLost])
  return trouble
}

interface Connected {
  readonly connection: RunConnection
  readonly active: ReadonlySignal<string | null>
  readonly state: ReadonlySignal<string>
  retryNow(): void
}

export function Connecting({ conversation }: { readonly conversation: Connected }) {
  const { state, retryAt = 0, failures } = conversation.connection.now.value
  const isBroken = conversation.state.value === 'broken'
  const since = conversation.active.value === null ? null : conversation.connection.lostSince.value
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    if (since === null) return
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [since])
  const isUnseen = isAway.value
  const isLost = since !== null && (failures > 1 || now - since > SHOWN_AFTER_MS)
  const trouble = useTrouble(isLost || isBroken || isUnseen)
  if (!isLost && !isBroken && !isUnseen) return null
  const seconds = Math.max(0, Math.ceil((retryAt - now) / 1000))
  const lost = conversation.active.value
    ? t('{}. The answer goes on without it', troubles()[trouble])
    : t('{}. Your message is not sent yet', troubles()[trouble])
  const words = isUnseen
    ? t(
        '{}. What you write is kept, and sent when it is back.',
        trouble === 'unreachable' ? t('The server does not answer') : troubles()[trouble]
      )
    : isBroken
      ? trouble === 'unreachable' || trouble === 'silent'
        ? t('The server cannot be reached.')
        : `${troubles()[trouble]}.`
      : state === 'waiting' && seconds > 0
        ? t('{}; trying again in {} s.', lost, seconds)
        : t('{}. Trying again…', lost)
  const signAge = Math.round((now - conversation.connection.lastSign) / 1000)
  const sign =
    isLost && conversation.active.value && signAge >= OLD_SIGN_S ? ` ${t('Last sign {} s ago.', signAge)}` : ''
  return html`<div class="lost" role="status">
    <span>${words}${sign}${isLost && conversation.connection.isStopping.value && ` ${t('Stop is sent as soon as it is back.')}`}</span>
    <button class="link" onClick=${() => {
      void reach()
      conversation.retryNow()
    }}>Try now</button>
  </div>`
}
