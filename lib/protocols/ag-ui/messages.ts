// A conversation as TanStack's pages load it: its messages, whose parts are what their stream has shown of them.
import type { Json, JsonObject } from '../../base/types.ts'
import { fileOf, partsOf } from '../../conversation/content.ts'
import { type Part, partsOfMessages } from '../parts.ts'
import { withAnswers } from '../questions.ts'

interface Message {
  readonly id: Json
  readonly role: 'user' | 'assistant'
  readonly parts: JsonObject[]
}

/** Of a thread's messages as they are stored. What says nothing is not shown. */
export function pageMessages(messages: readonly JsonObject[]): JsonObject[] {
  const shown: Message[] = []
  for (const { id = null, type, ...message } of withAnswers(messages)) {
    if (type === 'tool') addResult(shown, partsOfMessages([{ id, type, ...message }]))
    if (type === 'human') shown.push({ id, role: 'user', parts: askedParts(message.content ?? '') })
    if (type === 'ai')
      shown.push({ id, role: 'assistant', parts: partsOfMessages([{ id, type, ...message }]).flatMap(shownOf) })
  }
  return shown.filter(({ parts }) => parts.length > 0).map((message) => ({ ...message }))
}

function askedParts(content: Json): JsonObject[] {
  return partsOf({ content }).flatMap((part): JsonObject[] =>
    part.type === 'media' ? mediaParts(part.content) : [{ type: 'text', content: part.text }]
  )
}

/** Media as a part of a message, in AG-UI's form, which TanStack's has too; none: they are nowhere. */
export function mediaParts(content: JsonObject): JsonObject[] {
  const file = fileOf(content)
  if (!file) return []
  const { url: value, mediaType: mimeType } = file
  const kind = /^(image|audio|video)\//.exec(mimeType)?.[1] ?? 'document'
  return [{ type: kind, source: { type: 'url', value, mimeType } }]
}

function shownOf(part: Part): JsonObject[] {
  if (part.type === 'delta') return [{ type: part.kind === 'text' ? 'text' : 'thinking', content: part.text }]
  // One that was broken off was made by nobody.
  if (part.type !== 'called' || part.error !== null) return []
  const { id, name, args } = part
  return [{ type: 'tool-call', id, name, arguments: JSON.stringify(args), state: 'input-complete' }]
}

/** A result is in the message of its call, or of nobody's in the one before it. */
function addResult(shown: readonly Message[], parts: readonly Part[]): void {
  for (const part of parts) {
    if (part.type !== 'result') continue
    const { id, text, isError } = part
    const said = askedParts(part.content)
    const content: Json = said.every(({ type }) => type === 'text') ? text : said
    const isOfIt = (one: JsonObject) => one.type === 'tool-call' && one.id === id
    const owner = shown.findLast((one) => one.parts.some(isOfIt)) ?? shown.findLast(({ role }) => role === 'assistant')
    const state: JsonObject = isError ? { state: 'error', error: text } : { state: 'complete' }
    owner?.parts.push({ type: 'tool-result', toolCallId: id, content, ...state })
  }
}
