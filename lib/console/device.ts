// What the page keeps on this device, so that it opens without a server: who was here, drafts with their files, messages that wait, and
// conversations where their user wants it. Nothing of it outlives the session, and nothing meets another user.
import { BASE } from './base.ts'

/** Another gateway below another path of this server has a device of its own. */
const PREFIX = `colloquy:${BASE}:`
const OWNER = 'user'
const STORES = ['files', 'threads'] as const
type StoreName = (typeof STORES)[number]

// ------------------------------------------------------------------------------------------------ texts

/** A text of the device; null: it has none of that name. */
export function deviceText(name: string): string | null {
  return localStorage.getItem(PREFIX + name)
}

/** @param text '': nothing */
export function keepOnDevice(name: string, text: string): void {
  // Another tab has signed out: nothing is kept any more.
  if (deviceText(OWNER) === null) return
  write(name, text)
}

function write(name: string, text: string): void {
  try {
    if (text) localStorage.setItem(PREFIX + name, text)
    else localStorage.removeItem(PREFIX + name)
  } catch {
    // The storage is full, so only this tab has the text.
  }
}

/** Calls back when another tab has changed a text. */
export function onDeviceText(name: string, listener: (text: string | null) => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (key === PREFIX + name) listener(newValue)
  })
}

// ------------------------------------------------------------------------------------------------ owner

/** Whose device it is; null: nobody's, and nothing is kept. */
export function ownerOf<User>(): User | null {
  const text = deviceText(OWNER)
  // Written by `openDevice`.
  return text === null ? null : (JSON.parse(text) as User)
}

/** Keeps from now on what is this user's. What was another's must be gone. */
export function openDevice(user: object): void {
  write(OWNER, JSON.stringify(user))
}

/** Removes everything: the session is over, or is another's. */
export async function wipeDevice(): Promise<void> {
  for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key)
  await Promise.all(STORES.map((store) => clearKept(store)))
}

// ------------------------------------------------------------------------------------------------ larger things

let opening: Promise<IDBDatabase> | null = null

function database(): Promise<IDBDatabase> {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(PREFIX, 1)
    request.onupgradeneeded = () => {
      for (const name of STORES) request.result.createObjectStore(name)
    }
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
  return opening
}

/** null: there is nothing, or this browser keeps nothing. */
async function within<T>(
  name: StoreName,
  mode: IDBTransactionMode,
  act: (store: IDBObjectStore) => IDBRequest<T>
): Promise<T | null> {
  try {
    const opened = await database()
    return await new Promise((resolve, reject) => {
      const request = act(opened.transaction(name, mode).objectStore(name))
      request.onsuccess = () => resolve(request.result ?? null)
      request.onerror = () => reject(request.error)
    })
  } catch {
    return null
  }
}

export function readKept<T>(store: StoreName, key: string): Promise<T | null> {
  // Written by `writeKept` with the same store.
  return within(store, 'readonly', (all) => all.get(key)) as Promise<T | null>
}

/** @param value null: nothing */
export async function writeKept(store: StoreName, key: string, value: unknown): Promise<void> {
  if (deviceText(OWNER) === null) return
  if (value === null) await within(store, 'readwrite', (all) => all.delete(key))
  else await within(store, 'readwrite', (all) => all.put(value, key))
}

export async function clearKept(store: StoreName): Promise<void> {
  await within(store, 'readwrite', (all) => all.clear())
}
