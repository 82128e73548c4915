// What the content of a message consists of, for protocols that show it part by part, whoever's form the message has.
import { isObject, type JsonObject } from '../base/types.ts'

/** What a message, or a chunk of one, has to show, in order. */
export type Part =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | { readonly type: 'media'; readonly content: JsonObject }

/** Of a message's `additional_kwargs`: the name of each block's file, for images, whose blocks have no place for one. */
export const FILENAMES = 'filenames'

/** Texts, reasoning and media; calls are read by `readChunk`. */
export function partsOf({ content, additional_kwargs }: JsonObject): Part[] {
  const parts: Part[] = []
  const reasoning = isObject(additional_kwargs) ? additional_kwargs.reasoning_content : undefined
  if (typeof reasoning === 'string' && reasoning !== '') parts.push({ type: 'reasoning', text: reasoning })
  const names = isObject(additional_kwargs) ? additional_kwargs[FILENAMES] : null
  for (const [at, block] of (Array.isArray(content) ? content : [content]).entries()) {
    if (typeof block === 'string' && block !== '') parts.push({ type: 'text', text: block })
    else if (isObject(block)) parts.push(...partOf(block).map((part) => named(part, Array.isArray(names) && names[at])))
  }
  return parts
}

function named(part: Part, filename: unknown): Part {
  if (part.type !== 'media' || typeof filename !== 'string') return part
  return { ...part, content: { filename, ...part.content } }
}

const MEDIA = ['image', 'audio', 'video', 'file']

/** Image, audio, video or file under the protocol's field names; null: none of these. Clients read no other names. */
function mediaIn(block: JsonObject): JsonObject | null {
  const { type, mimeType, image_url: image, input_audio: audio, file } = block
  if (type === 'file' && isObject(file)) return fileIn(file)
  if (MEDIA.includes(String(type))) return typeof mimeType === 'string' ? { mime_type: mimeType, ...block } : block
  // OpenAI's form.
  const url = isObject(image) ? image.url : image
  if (type === 'image_url' && typeof url === 'string') return { type: 'image', url }
  if (type !== 'input_audio' || !isObject(audio)) return null
  return { type: 'audio', data: audio.data ?? null, mime_type: `audio/${audio.format ?? 'wav'}` }
}

/** OpenAI's form; null: it names one that its service keeps. */
function fileIn({ file_data: data, filename }: JsonObject): JsonObject | null {
  if (typeof data !== 'string') return null
  const isAddress = /^(data:|https?:)/.test(data)
  return { type: 'file', ...(isAddress ? { url: data } : { data }), ...(typeof filename === 'string' && { filename }) }
}

interface MediaFile {
  /** Its data stand in it, or it is elsewhere. */
  readonly url: string
  readonly mediaType: string
  readonly filename: string | null
}

/** Media as a file. null: it has neither an address nor data. */
export function fileOf({ type, url, data, base64, mime_type, filename }: JsonObject): MediaFile | null {
  const told = typeof mime_type === 'string' ? mime_type : type === 'file' ? 'application/octet-stream' : `${type}/*`
  const about = { mediaType: told, filename: typeof filename === 'string' ? filename : null }
  if (typeof url === 'string') return { ...about, url, mediaType: mediaTypeIn(url) ?? told }
  const bytes = typeof data === 'string' ? data : base64
  return typeof bytes === 'string' ? { ...about, url: `data:${told};base64,${bytes}` } : null
}

/** A file as a block of a message, in OpenAI's form. */
export function blockOf({ url, mediaType, filename }: MediaFile): JsonObject {
  return mediaType.startsWith('image/')
    ? { type: 'image_url', image_url: { url } }
    : { type: 'file', file: { file_data: url, ...(filename !== null && { filename }) } }
}

/** The data of a `data:` URL in base64. null: it has none. */
export function base64In(url: string): string | null {
  const head = /^data:[^,]*;base64,/.exec(url)?.[0]
  return head === undefined ? null : url.slice(head.length)
}

function mediaTypeIn(url: string): string | null {
  return /^data:([^;,]+)/.exec(url)?.[1] ?? null
}

/** Blocks of provider-specific types are in the state only. */
function partOf(block: JsonObject): Part[] {
  const { type, text, reasoning, thinking } = block
  const content = mediaIn(block)
  if (content) return [{ type: 'media', content }]
  if (type === 'text' && typeof text === 'string' && text !== '') return [{ type, text }]
  const thought = reasoning ?? thinking
  return typeof thought === 'string' && thought !== '' ? [{ type: 'reasoning', text: thought }] : []
}
