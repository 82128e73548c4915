// This browser's subscription to Web Push: it is told of answers while no page is open, where the server and the browser can.
import { call } from './api.ts'

const PATH = '/api/v1/auth/push'
/** Id of this browser's subscription, to end it. */
const KEY = 'colloquy.push'

/** Has the server tell this browser. Where it cannot, an open page still does. */
export async function subscribe(): Promise<void> {
  const registration = await registrationHere()
  if (!registration?.pushManager) return
  const { public_key } = await call<{ public_key: string }>('GET', PATH)
  const subscription = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytesOf(public_key)
  })
  const { id } = await call<{ id: string }>('POST', `${PATH}/subscriptions`, subscription.toJSON())
  localStorage.setItem(KEY, id)
}

/** Ends it here; the server forgets it with the session at the latest. */
export async function unsubscribe(): Promise<void> {
  const id = localStorage.getItem(KEY)
  localStorage.removeItem(KEY)
  const subscription = await (await registrationHere())?.pushManager?.getSubscription()
  await subscription?.unsubscribe()
  if (id !== null) await call('DELETE', `${PATH}/subscriptions/${encodeURIComponent(id)}`).catch(() => {})
}

async function registrationHere(): Promise<ServiceWorkerRegistration | undefined> {
  return 'serviceWorker' in navigator ? navigator.serviceWorker.getRegistration() : undefined
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}
