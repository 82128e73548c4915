// Contexts of Agent2Agent (A2A): threads, by their id, or by a text of the client's own.
import { isId } from '../../http/schema.ts'
import type { Services } from '../../routes/services.ts'

/** Whose names they are, among those of other protocols. */
export const CONTEXTS = 'a2a'

/** The caller's thread of this name; null: there is none, also where it is somebody else's id. */
export async function threadOf({ threads, aliases }: Services['store'], context: string): Promise<string | null> {
  if (isId(context) && (await threads.get(context))) return context
  return (await aliases.get(CONTEXTS, context))?.thread_id ?? null
}
