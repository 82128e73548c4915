// Conversations on this device, where their user has asked for it: as they were read last, to be read without a server.
import { clearKept, deviceText, keepOnDevice, readKept, writeKept } from './device.ts'
import type { Checkpoint, Run } from './records.ts'

/** A conversation as it was read last. */
interface KeptThread {
  readonly runs: readonly Run[]
  readonly newest: Checkpoint
}

const KEEPS = 'keeps-threads'
/** Ids of what is kept, the last one that was read first. */
const INDEX = 'kept-threads'
const LIST = 'thread-list'
const THREADS_MAX = 100

export const keepsThreads = (): boolean => deviceText(KEEPS) !== null

/** Keeps what is read from now on; or nothing, and removes what is there. */
export async function setKeepsThreads(isOn: boolean): Promise<void> {
  keepOnDevice(KEEPS, isOn ? 'on' : '')
  if (isOn) return
  keepOnDevice(INDEX, '')
  keepOnDevice(LIST, '')
  await clearKept('threads')
}

// Written by `keepThread`.
const index = (): readonly string[] => JSON.parse(deviceText(INDEX) ?? '[]')

export function keepThread(threadId: string, thread: KeptThread): void {
  if (!keepsThreads()) return
  const ids = [threadId, ...index().filter((id) => id !== threadId)]
  for (const id of ids.slice(THREADS_MAX)) void writeKept('threads', id, null)
  keepOnDevice(INDEX, JSON.stringify(ids.slice(0, THREADS_MAX)))
  void writeKept('threads', threadId, thread)
}

/** It was deleted, or is this user's no more. */
export function forgetThread(threadId: string): void {
  if (!keepsThreads()) return
  keepOnDevice(INDEX, JSON.stringify(index().filter((id) => id !== threadId)))
  void writeKept('threads', threadId, null)
}

export function keptThread(threadId: string): Promise<KeptThread | null> {
  return readKept<KeptThread>('threads', threadId)
}

/** The first page of the list. */
export function keepThreadList(threads: readonly object[]): void {
  if (keepsThreads()) keepOnDevice(LIST, JSON.stringify(threads))
}

// Written by `keepThreadList`.
export const keptThreadList = <T>(): readonly T[] => JSON.parse(deviceText(LIST) ?? '[]')
