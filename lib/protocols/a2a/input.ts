// A message of Agent2Agent (A2A) as input of a run.
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import { INVALID_PARAMS, RpcError } from '../json-rpc.ts'
import { a2aError } from './errors.ts'

export interface GivenMessage {
  readonly messageId: string
  /** null: a new one. */
  readonly contextId: string | null
  readonly taskId: string | null
  readonly content: Json
  /** Its texts alone. */
  readonly text: string
  /** What it answers with instead of words; undefined: it has no data. */
  readonly data: Json | undefined
}

const PARTS_MAX = 64
const ID_LENGTH_MAX = 256

/** @throws RpcError naming the field */
export function messageIn({ message }: JsonObject): GivenMessage {
  if (!isObject(message)) throw refuse('message must be an object')
  const { messageId, role, parts } = message
  if (typeof messageId !== 'string' || messageId === '' || messageId.length > ID_LENGTH_MAX)
    throw refuse('message.messageId must be a short text')
  if (role !== 'ROLE_USER') throw refuse('message.role must be ROLE_USER')
  if (!Array.isArray(parts) || parts.length === 0 || parts.length > PARTS_MAX)
    throw refuse(`message.parts must be a list of 1 to ${PARTS_MAX} parts`)
  const blocks = parts.map(blockOf)
  const texts = blocks.flatMap((block) => (block.type === 'text' ? [String(block.text)] : []))
  const isText = texts.length === blocks.length
  return {
    messageId,
    contextId: idIn(message, 'contextId'),
    taskId: idIn(message, 'taskId'),
    content: isText ? texts.join('\n') : blocks,
    text: texts.join('\n'),
    data: parts.filter(isObject).find((part) => part.data !== undefined)?.data
  }
}

function idIn(message: JsonObject, name: 'contextId' | 'taskId'): string | null {
  const id = message[name]
  if (id === undefined || id === null || id === '') return null
  if (typeof id !== 'string' || id.length > ID_LENGTH_MAX) throw refuse(`message.${name} must be a short text`)
  return id
}

function blockOf(part: Json, at: number): JsonObject {
  const where = `message.parts[${at}]`
  if (!isObject(part)) throw refuse(`${where} must be an object`)
  const { text, data, raw, url, mediaType } = part
  if (typeof text === 'string') return { type: 'text', text }
  if (data !== undefined) return { type: 'text', text: JSON.stringify(data) }
  const type = typeof mediaType === 'string' ? mediaType : ''
  const link = typeof url === 'string' ? url : typeof raw === 'string' ? `data:${type};base64,${raw}` : null
  if (link === null) throw refuse(`${where} must have text, data, raw or url`)
  if (!type.startsWith('image/'))
    throw a2aError('CONTENT_TYPE_NOT_SUPPORTED', `${where}: ${type.slice(0, 64) || 'no mediaType'}`)
  return { type: 'image_url', image_url: { url: link } }
}

function refuse(what: string): RpcError {
  return new RpcError(INVALID_PARAMS, what)
}
