// Who is signed in on this page, in this tab and the others; what the forms of door.ts ask for is sent here, and a device is wiped here.
import { signal } from '@preact/signals'
import { ApiError } from '../client/colloquy.ts'
import { call, colloquy, link, whenSignedOut } from './api.ts'
import { openDevice, ownerOf, wipeDevice } from './device.ts'
import { endLive } from './live.ts'
import { adoptNew, keepFor } from './tab-storage.ts'
import { notifyFailure } from './toast.ts'
import { forgetUnsent } from './unsent.ts'

interface User {
  readonly id: string
  readonly email: string
  readonly system_role: 'admin' | 'user'
  readonly needs_setup: boolean
}
interface SetupStatus {
  readonly needs_setup: boolean
  readonly registration_enabled: boolean
  readonly registration?: 'open' | 'invite' | 'closed'
  readonly local?: boolean
  readonly password_mail?: boolean
}

/** `setup`: there is no administrator yet. */
type Stage = 'loading' | 'unreachable' | 'setup' | 'out' | 'in'

export const stage = signal<Stage>('loading')
export const me = signal<User | null>(null)
/** The page was opened without its server, for who was here last. */
export const isAway = signal(false)
export const canRegister = signal(true)
/** People sign in with a password; false: at a provider alone. */
export const hasPasswords = signal(true)
/** A link to a new password comes by mail. */
export const hasMail = signal(false)
/** The invitation in the page's URL. */
export const invitation = /^#\/invitation\/(.+)$/.exec(location.hash)?.[1] ?? ''
/** A password link, or the link for the first administrator, in the page's URL. */
export const passwordToken = /^#\/password\/(.+)$/.exec(location.hash)?.[1] ?? ''
const setupToken = /^#\/setup\/(.+)$/.exec(location.hash)?.[1] ?? ''
/** Registration needs an invitation, or the page was opened with one. */
export const needsInvitation = signal(invitation !== '')
/** The session ended while the page was open; shown above the form. */
export const hasEnded = signal(false)
/** A link is good for users alone, and nobody is signed in. */
export const wantsSession = signal(false)
/** Whose session it was, for the form. */
export const endedFor = signal('')

const STATUS_KEY = 'colloquy.setup-status'

/** Tells other tabs who has signed in; null: nobody any more. */
const tabs = new BroadcastChannel('colloquy-session')
/** The user whose data this page has loaded. */
let loadedFor: string | null = null

tabs.addEventListener('message', ({ data }) => {
  if (data === null) return signedOut()
  if (loadedFor !== data) location.reload()
  // Another tab has signed the same user in again.
  else if (stage.value === 'out') void begin()
})

/** The session is being exchanged: until the answer is here, the new one is not, and the old one is refused already. */
let isChanging = false

whenSignedOut(signedOut)

/** The session is over: whoever was here signs in again, and is back where he was. */
function signedOut(): void {
  if (stage.value !== 'in' || isChanging) return
  endLive()
  forget()
  hasEnded.value = true
  endedFor.value = me.value?.email ?? ''
  me.value = null
  stage.value = 'out'
  void readDoor()
}

/** Nothing stays on the device: the session is over. */
function forget(): void {
  isAway.value = false
  forgetUnsent()
  void wipeDevice()
}

/** Finds out who is signed in. */
export async function begin(): Promise<void> {
  // The cookie exists only with a session.
  if (!document.cookie.includes('csrf_token=')) {
    forget()
    return beginSignedOut()
  }
  try {
    await greet(await call<User>('GET', '/api/v1/auth/me'))
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      forget()
      return beginSignedOut()
    }
    const owner = ownerOf<User>()
    if (owner) {
      isAway.value = true
      await greet(owner)
      againIn(AGAIN_MS)
    } else stage.value = 'unreachable'
  }
}

const AGAIN_MS = 3000
let again: ReturnType<typeof setTimeout> | undefined

function againIn(ms: number): void {
  clearTimeout(again)
  again = setTimeout(() => void reach(), ms)
}

/** Whether the server is back, for whom the page was opened without it. */
export async function reach(): Promise<void> {
  if (!isAway.value) return
  clearTimeout(again)
  const user = await call<User>('GET', '/api/v1/auth/me').catch(() => null)
  // A refusal has ended the session.
  if (!isAway.value) return
  if (!user) return againIn(AGAIN_MS)
  if (user.id !== loadedFor) {
    forget()
    return location.reload()
  }
  isAway.value = false
  await greet(user)
  dispatchEvent(new Event('online'))
}

addEventListener('online', () => void reach())

export async function beginSignedOut(): Promise<void> {
  stage.value = (await readDoor()).needs_setup ? 'setup' : 'out'
}

/** What the door has to offer. */
async function readDoor(): Promise<SetupStatus> {
  const status = await setupStatus()
  hasPasswords.value = status.local !== false
  hasMail.value = status.password_mail === true
  canRegister.value = hasPasswords.value && (status.registration_enabled || status.registration === 'invite')
  needsInvitation.value = status.registration === 'invite' || invitation !== ''
  return status
}

/** Limited to one request per minute and address, so the last answer is kept for reloads and other tabs. */
async function setupStatus(): Promise<SetupStatus> {
  try {
    const status = await colloquy.call<SetupStatus>('GET', '/api/v1/auth/setup-status')
    localStorage.setItem(STATUS_KEY, JSON.stringify(status))
    return status
  } catch {
    const kept = localStorage.getItem(STATUS_KEY)
    return kept ? (JSON.parse(kept) as SetupStatus) : { needs_setup: false, registration_enabled: true }
  }
}

async function enter(): Promise<void> {
  localStorage.removeItem(STATUS_KEY)
  if (link !== null) return location.reload()
  const user = await call<User>('GET', '/api/v1/auth/me')
  tabs.postMessage(user.id)
  if (invitation || setupToken) location.hash = ''
  // The page still holds the data of the user before.
  if (loadedFor !== null && loadedFor !== user.id) location.reload()
  else await greet(user)
}

async function greet(user: User): Promise<void> {
  keepFor(user.id)
  if (ownerOf<User>()?.id !== user.id) forget()
  openDevice(user)
  await adoptNew()
  loadedFor = user.id
  me.value = user
  hasEnded.value = false
  stage.value = 'in'
}

export async function signIn(email: string, password: string): Promise<void> {
  await colloquy.request('POST', '/api/v1/auth/login/local', {
    body: new URLSearchParams({ username: email, password })
  })
  await enter()
}

/** Creates an account: the first administrator's, or another user's. */
export async function signUp(email: string, password: string, isFirst: boolean, invited: string): Promise<void> {
  const link = isFirst ? setupToken && { setup_token: setupToken } : invited && { invitation: invited }
  const body = { email, password, ...(link || {}) }
  await colloquy.call('POST', `/api/v1/auth/${isFirst ? 'initialize' : 'register'}`, body)
  await enter()
}

/** Sets a password by a link, and signs in with it. */
export async function setPassword(email: string, password: string): Promise<void> {
  await colloquy.call('POST', '/api/v1/auth/reset-password', { token: passwordToken, new_password: password })
  location.hash = ''
  await signIn(email, password)
}

/** Has a link to a new password mailed. */
export function forgot(email: string): Promise<unknown> {
  return colloquy.call('POST', '/api/v1/auth/forgot-password', { email })
}

export async function signOut(): Promise<void> {
  // While there is a session to end it with.
  if (localStorage.getItem('colloquy.push'))
    await import('./push.ts').then(({ unsubscribe }) => unsubscribe()).catch(() => {})
  await wipeDevice()
  let there: string | undefined
  try {
    there = (await call<{ logout_url?: string }>('POST', '/api/v1/auth/logout')).logout_url
  } catch (error) {
    // The session goes on, and what is written from now on is kept.
    if (me.value) openDevice(me.value)
    return notifyFailure(error)
  }
  tabs.postMessage(null)
  keepFor('')
  // Reload, because the page still holds the user's data.
  location.hash = ''
  // Its provider would sign the next one in as the same person.
  if (there !== undefined) location.assign(there)
  else location.reload()
}

/** A call whose answer brings another session. */
async function exchange(path: string, body?: object): Promise<void> {
  isChanging = true
  try {
    await call('POST', path, body)
  } finally {
    isChanging = false
  }
}

/** Ends all sessions but this one. */
export function endOthers(): Promise<void> {
  return exchange('/api/v1/auth/sessions/end')
}

export async function changePassword(current: string, next: string, newEmail: string | null): Promise<void> {
  const body = { current_password: current, new_password: next, ...(newEmail && { new_email: newEmail }) }
  await exchange('/api/v1/auth/change-password', body)
  me.value = await call<User>('GET', '/api/v1/auth/me')
}

export const PASSWORD_RULES = 'At least 8 characters, and none of the well-known ones.'
