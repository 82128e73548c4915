// What a tab keeps over a reload; drafts are kept on the device too. And which tab holds the conversation that has not begun.
import { deviceText, keepOnDevice } from './device.ts'

const USER = 'colloquy.user'

export function kept(name: string): string | null {
  return sessionStorage.getItem(name)
}

/** @param text '': nothing */
export function keep(name: string, text: string): void {
  sessionStorage.removeItem(name)
  try {
    if (text) sessionStorage.setItem(name, text)
  } catch {
    // The storage is full, so a reload loses the text.
  }
}

/** This tab's draft, or the one that an earlier tab has left. */
export function keptDraft(name: string): string | null {
  return kept(name) ?? deviceText(name)
}

/** @param text '': nothing */
export function keepDraft(name: string, text: string): void {
  keep(name, text)
  keepOnDevice(name, text)
}

/** Forgets what another user of this tab has left. */
export function keepFor(userId: string): void {
  if (kept(USER) === userId) return
  sessionStorage.clear()
  keep(USER, userId)
}

// ------------------------------------------------------------------------------------------------ the conversation that has not begun

const NEW = 'colloquy.new'
const lockOf = (threadId: string): string => `colloquy:${threadId}`

/** The thread in which this tab begins its next conversation; null: none is chosen. */
export const keptNew = (): string | null => kept(NEW)

/** Keeps the thread of a conversation that has not begun, which is this tab's alone until it is released. @returns how to release it */
export function holdNew(threadId: string): () => void {
  keepDraft(NEW, threadId)
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  void navigator.locks?.request(lockOf(threadId), () => released)
  return release
}

/** It has begun. */
export function endNew(): void {
  keepDraft(NEW, '')
}

/** Goes on with the conversation that a tab which is closed has not begun. */
export async function adoptNew(): Promise<void> {
  const left = deviceText(NEW)
  if (kept(NEW) !== null || left === null || !navigator.locks) return
  const { held } = await navigator.locks.query()
  if (!held?.some(({ name }) => name === lockOf(left))) keep(NEW, left)
}
