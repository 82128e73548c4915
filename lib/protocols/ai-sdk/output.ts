// What a page's tool has answered: words, any JSON, or what the AI SDK calls content, which has files beside texts.
import { isByClient, valueIn } from '../../agent/client-context.ts'
import { objectsIn, textOr } from '../../base/json.ts'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import { base64In, blockOf, fileOf, type Part, partsOf } from '../../conversation/content.ts'

/** An output as the content of a message. */
export function contentIn(output: Json): string | JsonObject[] {
  if (typeof output === 'string') return output
  const isContent = isObject(output) && output.type === 'content' && Array.isArray(output.value)
  return isContent ? objectsIn(output.value).map(blockIn) : JSON.stringify(output)
}

/** The types of its parts are those of versions 5 to 7. What names a file of a provider is told as it came. */
function blockIn(part: JsonObject): JsonObject {
  const { type, text, data, mediaType, filename } = part
  const file = isObject(data) ? data : part
  const words = text ?? file.text
  if (typeof words === 'string') return { type: 'text', text: words }
  const told = textOr(mediaType) ?? (/^image/.test(String(type)) ? 'image/png' : 'application/octet-stream')
  const url = textOr(file.url) ?? (typeof file.data === 'string' ? `data:${told};base64,${file.data}` : null)
  if (url === null) return { type: 'text', text: JSON.stringify(part) }
  return blockOf({ url, mediaType: told, filename: textOr(filename) })
}

/** What a tool message was made of, where a page's tool has answered; the content of others. */
export function outputOf(message: JsonObject): Json {
  const { content = '' } = message
  const value = valueIn(message)
  if (value !== undefined) return value
  if (!isByClient(message) || !Array.isArray(content)) return content
  return { type: 'content', value: partsOf({ content }).flatMap(partIn) }
}

function partIn(part: Part): JsonObject[] {
  if (part.type !== 'media') return [{ type: 'text', text: part.text }]
  const file = fileOf(part.content)
  if (!file) return []
  const { url, mediaType } = file
  const about = { mediaType, ...(file.filename !== null && { filename: file.filename }) }
  const data = base64In(url)
  return [data === null ? { type: 'file-url', url, ...about } : { type: 'file-data', data, ...about }]
}
