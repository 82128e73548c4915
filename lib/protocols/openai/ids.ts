// Ids of this protocol: a prefix, and the id of ours without its dashes.
import type { Run } from '../../base/types.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const BARE = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/
const RESPONSE = 'resp_'
const CONVERSATION = 'conv_'

export function responseId({ run_id }: Pick<Run, 'run_id'>): string {
  return RESPONSE + bare(run_id)
}

export function conversationId(threadId: string): string {
  return CONVERSATION + bare(threadId)
}

/** The id of the run; null: none of ours. */
export function runIdIn(text: string): string | null {
  return idIn(text, RESPONSE)
}

/** The id of the thread; null: none of ours. */
export function threadIdIn(text: string): string | null {
  return idIn(text, CONVERSATION)
}

/** An id of a part of ours, as the ids of items have it. */
export function bare(id: string): string {
  return UUID.test(id) ? id.replaceAll('-', '') : id
}

function idIn(text: string, prefix: string): string | null {
  if (!text.startsWith(prefix)) return null
  const id = text.slice(prefix.length)
  const parts = BARE.exec(id)
  return parts ? parts.slice(1).join('-') : /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : null
}
