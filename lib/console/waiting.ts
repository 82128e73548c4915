// Threads in which an agent waits for its user: how many, and word of an answer while nobody looks.
import { computed, signal } from '@preact/signals'
import { call } from './api.ts'
import { threadLink } from './router.ts'
import { type Thread, titleOf, whenRefreshed } from './threads.ts'
import { t } from './words.ts'

export const asking = signal<readonly Thread[]>([])
export const askingCount = computed(() => asking.value.length)

const SHOWN_MAX = 100
/** How often a hidden tab asks what has ended, in ms: it has no connection of its own. */
const HIDDEN_MS = 10_000
const RECENT = 20
const NOTIFY_KEY = 'colloquy.notify'

/** Reads the threads that wait, newest first. */
export async function refreshAsking(): Promise<void> {
  asking.value = await call<Thread[]>('POST', '/api/threads/search', { status: 'interrupted', limit: SHOWN_MAX })
}

whenRefreshed(() => void refreshAsking().catch(() => {}))

// ---------------------------------------------------------------------------------------------- notifications

export const canNotify = (): boolean => 'Notification' in globalThis && isSecureContext
export const notifies = signal(
  canNotify() && Notification.permission === 'granted' && localStorage.getItem(NOTIFY_KEY) === 'on'
)

/** Turns notifications on, which the browser asks for, or off. */
export async function setNotifies(isOn: boolean): Promise<void> {
  const permission = isOn ? await Notification.requestPermission() : 'default'
  notifies.value = permission === 'granted'
  localStorage.setItem(NOTIFY_KEY, notifies.value ? 'on' : 'off')
  const { subscribe, unsubscribe } = await import('./push.ts')
  // A server or a browser without it: an open page still tells.
  await (notifies.value ? subscribe() : unsubscribe()).catch(() => {})
}

/** Runs that were in flight when last looked. */
let working = new Set<string>()

async function look(): Promise<void> {
  const recent = await call<Thread[]>('POST', '/api/threads/search', { limit: RECENT }).catch(() => [])
  for (const thread of recent) if (working.has(thread.thread_id) && thread.status !== 'running') announce(thread)
  working = new Set(recent.filter(({ status }) => status === 'running').map(({ thread_id }) => thread_id))
}

function announce(thread: Thread): void {
  const words = thread.status === 'interrupted' ? t('The agent asks you something.') : t('The answer is there.')
  const notification = new Notification(titleOf(thread), { body: words, tag: thread.thread_id })
  notification.onclick = () => {
    focus()
    location.hash = threadLink(thread.thread_id)
    notification.close()
  }
}

/** Tells of answers while the tab is hidden, for as long as the page is signed in. */
export function watchHidden(): () => void {
  let timer: ReturnType<typeof setInterval> | undefined
  const onVisible = () => {
    clearInterval(timer)
    working.clear()
    if (!document.hidden || !notifies.value) return
    void look()
    timer = setInterval(() => void look(), HIDDEN_MS)
  }
  document.addEventListener('visibilitychange', onVisible)
  return () => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', onVisible)
  }
}
