// What a graph without a checkpointer of its own needs to go on after a question: its last checkpoint and what its nodes have written
// since, as texts that LangGraph's own serializer makes. They are kept in our state, so that they outlive the process.
import { createRequire } from 'node:module'
import type { Json, JsonObject } from '../../types.ts'
import { objectOr, objectsIn, textOr } from '../json.ts'

/** As much of LangGraph's BaseCheckpointSaver as is used. */
export interface Saver {
  readonly serde: {
    dumpsTyped(value: unknown): Promise<[string, Uint8Array]> | [string, Uint8Array]
    loadsTyped(type: string, bytes: Uint8Array | string): Promise<unknown>
  }
  list(config: object): AsyncIterable<SavedCheckpoint>
  put(config: object, checkpoint: unknown, metadata: unknown, newVersions: object): Promise<object>
  putWrites(config: object, writes: [string, unknown][], taskId: string): Promise<void>
  deleteThread?(threadId: string): Promise<void>
}

interface SavedCheckpoint {
  readonly config: { readonly configurable?: { readonly checkpoint_ns?: string } }
  readonly checkpoint: unknown
  readonly metadata?: unknown
  readonly pendingWrites?: readonly [string, string, unknown][]
}

/**
 * Checkpointers of the LangGraph that a graph's file uses.
 * @param path of the file, absolute
 * @returns null: there is none to be found from there
 */
export function saverBeside(path: string): () => Saver | null {
  const MemorySaver = memorySaverFrom(path)
  return () => MemorySaver && new MemorySaver()
}

function memorySaverFrom(path: string): (new () => Saver) | null {
  try {
    const langgraph: unknown = createRequire(path)('@langchain/langgraph')
    // The class of that name is what LangGraph's documentation says it is.
    return (langgraph as { MemorySaver?: new () => Saver }).MemorySaver ?? null
  } catch {
    return null
  }
}

/** The newest checkpoint of the graph and of each graph inside of it. */
export async function pendingGraphCheckpoint(saver: Saver, threadId: string): Promise<Json> {
  const newest = new Map<string, SavedCheckpoint>()
  // Newest first.
  for await (const saved of saver.list({ configurable: { thread_id: threadId } })) {
    const namespace = saved.config.configurable?.checkpoint_ns ?? ''
    if (!newest.has(namespace)) newest.set(namespace, saved)
  }
  return Promise.all([...newest].map(([namespace, saved]) => packOne(saver, namespace, saved)))
}

async function packOne(saver: Saver, namespace: string, saved: SavedCheckpoint): Promise<JsonObject> {
  const { checkpoint, metadata, pendingWrites = [] } = saved
  return {
    namespace,
    checkpoint: await dump(saver, checkpoint),
    metadata: await dump(saver, metadata ?? {}),
    writes: await Promise.all(
      pendingWrites.map(async ([task, channel, value]) => ({ task, channel, value: await dump(saver, value) }))
    )
  }
}

/** Gives a new saver what was kept. */
export async function restorePending(saver: Saver, threadId: string, pending: Json): Promise<void> {
  for (const { namespace, checkpoint, metadata, writes } of objectsIn(pending)) {
    const place = { configurable: { thread_id: threadId, checkpoint_ns: textOr(namespace) ?? '' } }
    const at = await saver.put(place, await load(saver, checkpoint), await load(saver, metadata), {})
    for (const [task, values] of byTask(objectsIn(writes))) {
      const loaded = values.map(
        async ({ channel, value }): Promise<[string, unknown]> => [textOr(channel) ?? '', await load(saver, value)]
      )
      await saver.putWrites(at, await Promise.all(loaded), task)
    }
  }
}

function byTask(writes: readonly JsonObject[]): Map<string, JsonObject[]> {
  const tasks = new Map<string, JsonObject[]>()
  for (const write of writes) {
    const task = textOr(write.task) ?? ''
    tasks.set(task, [...(tasks.get(task) ?? []), write])
  }
  return tasks
}

async function dump(saver: Saver, value: unknown): Promise<JsonObject> {
  const [type, bytes] = await saver.serde.dumpsTyped(value)
  return { type, base64: Buffer.from(bytes).toString('base64') }
}

async function load(saver: Saver, dumped: Json | undefined): Promise<unknown> {
  const { type, base64 } = objectOr(dumped)
  return saver.serde.loadsTyped(textOr(type) ?? 'json', Buffer.from(textOr(base64) ?? '', 'base64'))
}
