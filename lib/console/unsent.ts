// Messages that no server has taken yet, of all conversations: kept on the device, sent once when the server is there, in their order, and
// until then to be changed or removed.
import { computed, signal } from '@preact/signals'
import { ApiError, Colloquy, isFinal } from '../client/colloquy.ts'
import { textOf } from './api.ts'
import { BASE } from './base.ts'
import { type Choice, membersOf } from './choice.ts'
import { deviceText, keepOnDevice, onDeviceText, readKept, writeKept } from './device.ts'
import type { Attached } from './files.ts'
import { filesIn, type Origin, type Run } from './records.ts'

export type Message = Readonly<Record<string, unknown>>

export interface Unsent {
  /** The idempotency key: however often it is sent, it is one run. */
  readonly key: string
  readonly message: Message
  /** What is sent, once it has been tried: another body under the same key would be refused. */
  readonly body: object | null
  /** Its conversation follows the run. */
  readonly isFollowed: boolean
  readonly choice?: Choice
  /** Its thread is made by it. */
  readonly isNew?: boolean
  /** Names of files that are not uploaded yet. */
  readonly names?: readonly string[]
  /** The agent at work may have taken it. */
  readonly isGiven?: boolean
  /** It is for the agent at work, once that has begun. */
  readonly isForNow?: boolean
  /** Why the server has refused it. */
  readonly refusal?: string
}

const NAME = 'unsent'
const AGAIN_MS = 3000
const TIMEOUT_MS = 15_000
/** Messages among which one is looked for that may have been taken. */
const NEWEST = 200
/** For all files of a message. */
const UPLOAD_MS = 300_000

type Boxes = Readonly<Record<string, readonly Unsent[]>>

export const unsent = signal<Boxes>(read(deviceText(NAME)))
export const unsentCount = computed(() => Object.values(unsent.value).reduce((sum, { length }) => sum + length, 0))

onDeviceText(NAME, (text) => {
  unsent.value = read(text)
})

function read(text: string | null): Boxes {
  // Written by `change`.
  return text === null ? {} : (JSON.parse(text) as Boxes)
}

export const unsentIn = (threadId: string): readonly Unsent[] => unsent.value[threadId] ?? []

function change(threadId: string, list: readonly Unsent[]): void {
  const { [threadId]: _, ...others } = unsent.value
  unsent.value = list.length > 0 ? { ...others, [threadId]: list } : others
  keepOnDevice(NAME, unsentCount.value > 0 ? JSON.stringify(unsent.value) : '')
}

/** Adds a message at the end, or changes one that waits. */
export function putUnsent(threadId: string, one: Unsent): void {
  const list = unsentIn(threadId)
  const at = list.findIndex(({ key }) => key === one.key)
  change(threadId, at < 0 ? [...list, one] : list.with(at, one))
}

export function dropUnsent(threadId: string, key: string): void {
  change(
    threadId,
    unsentIn(threadId).filter((one) => one.key !== key)
  )
  void writeKept('files', key, null)
}

/** Messages that were taken back, whose request may be under way. */
const takenBack = new Set<string>()

export function takeBack(threadId: string, key: string): void {
  takenBack.add(key)
  dropUnsent(threadId, key)
}

/** Removes the run of a message that was taken back while it was being sent. @returns whether it was */
export async function endIfTakenBack(key: string, place: string | null): Promise<boolean> {
  if (!takenBack.delete(key)) return false
  const [path] = /\/api\/threads\/.*/.exec(place ?? '') ?? []
  // Its turn may have come meanwhile.
  if (path) await plain.call('DELETE', path).catch(() => {})
  return true
}

/** Messages that wait go with their session. */
export function forgetUnsent(): void {
  unsent.value = {}
}

// ------------------------------------------------------------------------------------------------ delivery

/** Without the page's WebSocket: what is sent here is not followed. */
const plain = new Colloquy({ url: BASE, timeoutMs: TIMEOUT_MS })
/** Threads whose conversation is sending by itself. */
export const sending = new Set<string>()
const listeners = new Set<(threadId: string) => void>()
/** Threads that the server has asked to wait, until when, as performance.now. */
const resting = new Map<string, number>()
let isDelivering = false
let timer: ReturnType<typeof setInterval> | undefined

/** Calls back with the thread whose waiting message has been taken. Returns how to stop. */
export function onDelivered(listener: (threadId: string) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Tries for as long as the page is signed in. Returns how to stop. */
export function keepDelivering(): () => void {
  const act = () => void deliver()
  timer = setInterval(act, AGAIN_MS)
  addEventListener('online', act)
  act()
  return () => {
    clearInterval(timer)
    removeEventListener('online', act)
  }
}

/** Sends what waits, conversation by conversation, as far as the server takes it; what it does not take now is tried again. */
export async function deliver(): Promise<void> {
  if (isDelivering || unsentCount.value === 0) return
  isDelivering = true
  for (const threadId of Object.keys(unsent.value)) if (!(await isReached(threadId))) break
  isDelivering = false
}

/** False: the network is lost, which fetch tells by a TypeError. Any other failure is of this conversation, and holds up no other. */
function isReached(threadId: string): Promise<boolean> {
  return deliverTo(threadId).then(
    () => true,
    (error: unknown) => !(error instanceof TypeError)
  )
}

async function deliverTo(threadId: string): Promise<void> {
  for (;;) {
    const waiting = unsentIn(threadId).find(({ refusal }) => refusal === undefined)
    if (!waiting || sending.has(threadId) || performance.now() < (resting.get(threadId) ?? 0)) return
    const path = `/api/threads/${encodeURIComponent(threadId)}`
    try {
      if (waiting.body === null) {
        if (waiting.isGiven && (await isThere(path, waiting.message))) {
          delivered(threadId, waiting)
          continue
        }
        const next = await (waiting.names?.length ? uploaded(path, waiting) : completed(path, waiting))
        // It was changed, or removed, or is being sent meanwhile.
        if (!unsentIn(threadId).includes(waiting) || sending.has(threadId)) continue
        putUnsent(threadId, next)
        // The message has them: kept any longer, they would be uploaded again, or come back twice.
        if (waiting.names?.length) void writeKept('files', waiting.key, null)
        continue
      }
      const headers = { 'Idempotency-Key': waiting.key }
      const run = await plain.send('POST', `${path}/runs${waiting.isFollowed ? '/stream' : ''}`, {
        body: waiting.body,
        headers,
        signal: AbortSignal.timeout(TIMEOUT_MS)
      })
      void run.body?.cancel().catch(() => {})
      await endIfTakenBack(waiting.key, run.headers.get('content-location'))
    } catch (error) {
      if (!isRefusal(error)) {
        if (error instanceof ApiError) resting.set(threadId, performance.now() + (error.retryAfterMs ?? 0))
        throw error
      }
      // Another tab has sent it in other words: it is there.
      if (error.code !== 'idempotency_conflict') {
        const isThere = unsentIn(threadId).some(({ key }) => key === waiting.key)
        if (isThere) putUnsent(threadId, { ...waiting, refusal: textOf(error) })
        continue
      }
    }
    delivered(threadId, waiting)
  }
}

function delivered(threadId: string, { key }: Unsent): void {
  dropUnsent(threadId, key)
  for (const listener of listeners) listener(threadId)
}

/** Whether the thread has a message already. */
async function isThere(path: string, { id }: Message): Promise<boolean> {
  const newest = await plain.call<Origin[]>('GET', `${path}/messages?limit=${NEWEST}`)
  return newest.some(({ content }) => content?.id === id)
}

/** One of the session is told by the page's other calls. */
function isRefusal(error: unknown): error is ApiError {
  return isFinal(error) && error.status !== 401
}

/** With what is sent: its message, behind what the thread has by then. */
async function completed(path: string, waiting: Unsent): Promise<Unsent> {
  const { message, choice, isNew } = waiting
  const [newest] = await plain.call<Run[]>('GET', `${path}/runs?limit=1`).catch((error: unknown) => {
    // A thread that is not there yet has none.
    if (isNew && error instanceof ApiError && error.status === 404) return []
    throw error
  })
  const body = {
    input: { messages: [message] },
    multitask_strategy: 'enqueue',
    metadata: { parent_run: newest?.run_id ?? null },
    on_disconnect: 'continue',
    ...(isNew && { if_not_exists: 'create' }),
    ...(choice && membersOf(choice))
  }
  return { ...waiting, body }
}

/** With its files in its message: the thread has them. */
async function uploaded(path: string, waiting: Unsent): Promise<Unsent> {
  const kept = (await readKept<readonly File[]>('files', waiting.key)) ?? []
  // The storage was full, or there is none. Without them it says something else.
  if (kept.length === 0) throw new ApiError(410, 'Its files are not on this device any more', null)
  const files = await upload(path, kept)
  const all = [...filesIn(waiting.message), ...files]
  const message = all.length > 0 ? { ...waiting.message, additional_kwargs: { files: all } } : waiting.message
  return { ...waiting, message, names: [] }
}

async function upload(path: string, files: readonly File[]): Promise<readonly Attached[]> {
  const form = new FormData()
  for (const file of files) form.append('files', file, file.name)
  const response = await plain.send('POST', `${path}/uploads`, { body: form, signal: AbortSignal.timeout(UPLOAD_MS) })
  return ((await response.json()) as { files: Attached[] }).files
}
