// Records of the API as the page reads them: runs, checkpoints, questions, messages.
import type { TranscriptMessage } from '../client/colloquy.ts'
import { type Attached, uploadedPath } from './files.ts'
import { t } from './words.ts'

/** What this page keeps with a run. */
export interface RunMetadata {
  readonly branch_of?: string
  readonly parent_run?: string | null
  /** It goes on with an answer: the question's id, and what was chosen. */
  readonly answered?: string
  readonly chosen?: readonly Chosen[]
}

/** What a user has said to a question, or decided about a tool call: the words of its card. */
export interface Chosen {
  /** The question, or the tool. */
  readonly asked: string
  /** What was done with the call; null: the question was answered. */
  readonly choice: string | null
  /** The answer, or why. */
  readonly words: string
  /** The call's arguments as they are now. */
  readonly fields: readonly (readonly [name: string, value: string])[]
}

export interface Run {
  readonly run_id: string
  readonly thread_id: string
  readonly status: string
  readonly error: string | null
  readonly stop_reason: string | null
  readonly metadata: RunMetadata
  readonly kwargs?: { readonly input?: { readonly messages?: unknown } | null }
  readonly created_at: string
  readonly updated_at: string
  readonly total_tokens: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly llm_call_count: number
  readonly lead_agent_tokens: number
  readonly subagent_tokens: number
  readonly middleware_tokens: number
}
/** A question of the agent that waits for its user. */
export interface Question {
  readonly id: string
  readonly value: unknown
}
/** An entry of a thread's history. */
export interface Checkpoint {
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly metadata: { readonly run_id?: string }
  readonly values: Readonly<Record<string, unknown>>
  readonly tasks: readonly { readonly interrupts: readonly Question[] }[]
}

/** A message of the thread's records. */
export interface Origin {
  readonly run_id: string
  readonly content: { readonly id?: string } | null
}

export function messagesIn({ messages }: Checkpoint['values']): readonly Record<string, unknown>[] {
  return Array.isArray(messages) ? messages : []
}

export function plainText(content: TranscriptMessage['content']): string {
  if (typeof content === 'string') return content
  return content
    .map((block) => {
      const text = typeof block === 'object' && block !== null && 'text' in block ? block.text : ''
      return typeof block === 'string' ? block : String(text)
    })
    .join('')
}

/** A part of a message as it is shown. */
type Part = { readonly text: string } | { readonly image: string }

/** Texts and images of a message, in its order. */
export function partsOf(content: TranscriptMessage['content']): readonly Part[] {
  if (typeof content === 'string') return content ? [{ text: content }] : []
  const parts: Part[] = []
  for (const block of content) {
    const image = imageIn(block)
    const last = parts.at(-1)
    const text = image === null ? plainText([block]) : ''
    if (image !== null) parts.push({ image })
    else if (last && 'text' in last) parts[parts.length - 1] = { text: last.text + text }
    else if (text) parts.push({ text })
  }
  return parts
}

/** The URL of an image block, in the form of chat completions, of LangChain or of MCP; null: another block. */
function imageIn(block: unknown): string | null {
  const { type, image_url, url, data, base64, mime_type, mimeType } = (block ?? {}) as Record<string, unknown>
  if (type !== 'image_url' && type !== 'image') return null
  const given = typeof image_url === 'object' ? (image_url as { url?: unknown } | null)?.url : (image_url ?? url)
  if (typeof given === 'string') return given
  const bytes = data ?? base64
  return typeof bytes === 'string' ? `data:${String(mime_type ?? mimeType ?? 'image/png')};base64,${bytes}` : null
}

/** What a message has beside its words: a file of the thread, or a block of the content, as other clients send images. */
export type Extra = Attached | Block
type Block = Readonly<Record<string, unknown>>

export const isBlock = (extra: Extra): extra is Block => !('virtual_path' in extra)

export function extrasIn(raw: Readonly<Record<string, unknown>>): readonly Extra[] {
  const { content } = raw
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const isBeside = (block: unknown): block is Block =>
    typeof block === 'object' && block !== null && plainText([block]) === ''
  return [...filesIn(raw), ...blocks.filter(isBeside)]
}

export const extrasOf = ({ raw, content }: TranscriptMessage): readonly Extra[] => extrasIn({ ...raw, content })

/** Name of an extra, and the URL of what can be shown of a block; null: nothing. */
export function lookOf(extra: Extra): { readonly name: string; readonly picture: string | null } {
  if (!isBlock(extra)) return { name: extra.filename, picture: null }
  const image = imageIn(extra)
  return { name: image === null ? t('Files') : t('Image'), picture: image !== null && isInline(image) ? image : null }
}

export const filesOf = ({ raw }: TranscriptMessage): readonly Attached[] => filesIn(raw)

export function filesIn(raw: Readonly<Record<string, unknown>>): readonly Attached[] {
  const files = (raw.additional_kwargs as { files?: unknown } | undefined)?.files
  return Array.isArray(files) ? files.flatMap((file: unknown) => attachedOf(file) ?? []) : []
}

/** A file as a message names it: other clients call its place `path`, or say none. null: it is no file. */
function attachedOf(file: unknown): Attached | null {
  const { filename, size, virtual_path, path } = (file ?? {}) as Record<string, unknown>
  if (typeof filename !== 'string') return null
  const place = [virtual_path, path].find((one) => typeof one === 'string') ?? uploadedPath(filename)
  return { ...(file as object), filename, size: Number(size) || 0, virtual_path: String(place) }
}

export function humanMessage(text: string, extras: readonly Extra[]): Record<string, unknown> {
  const blocks = extras.filter(isBlock)
  const files = extras.filter((extra) => !isBlock(extra))
  const words = text ? [{ type: 'text', text }] : []
  return {
    type: 'human',
    id: newId(),
    content: blocks.length > 0 ? [...words, ...blocks] : text,
    ...(files.length > 0 && { additional_kwargs: { files } })
  }
}

/** An image that is loaded from nowhere, and runs nothing. */
export const isInline = (url: string) => /^data:image\/(?!svg)/.test(url)

/** A question once more, with all that was said beside its words. */
export function repeatedMessage(message: TranscriptMessage): Record<string, unknown> {
  return { ...humanMessage('', filesOf(message)), content: message.content }
}

/** Messages, and characters of each, from which suggestions are made. */
const EXCHANGE_MESSAGES = 6
const EXCHANGE_CHARS = 2000

/** The last messages as POST /suggestions takes them. */
export function exchangeIn(messages: readonly TranscriptMessage[]): { role: string; content: string }[] {
  return messages
    .filter(({ type, content }) => (type === 'human' || type === 'ai') && plainText(content))
    .slice(-EXCHANGE_MESSAGES)
    .map(({ type, content }) => ({
      role: type === 'human' ? 'user' : 'assistant',
      content: plainText(content).slice(0, EXCHANGE_CHARS)
    }))
}

/** The progress in a custom event: a text, `{message}` or `{percent}`; null: it has none. */
export function progressIn(data: unknown): string | null {
  if (typeof data === 'string') return data
  if (typeof data !== 'object' || data === null) return null
  const { message, percent } = data as Record<string, unknown>
  if (typeof message === 'string') return message
  return typeof percent === 'number' ? `${percent} %` : null
}

/** randomUUID only exists on secure origins. */
export function newId(): string {
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
}

/** Why an answer ends before it is complete, as a sentence; null: it does not. */
export function cutOf({ raw }: TranscriptMessage, run: Run | undefined): string | null {
  const { finish_reason, stop_reason } = (raw.response_metadata ?? {}) as Record<string, unknown>
  const reason = String(finish_reason ?? stop_reason)
  if (/^(length|max_tokens|MAX_TOKENS)$/.test(reason))
    return t('The answer is cut off: it reached the limit of its length.')
  if (/^(content_filter|refusal|SAFETY)$/.test(reason))
    return t('The answer is cut off: the model’s provider stopped it.')
  return run ? stopOf(run) : null
}

/** How a run was stopped before its end, as a sentence; null: it was not. */
export function stopOf({ status, stop_reason }: Run): string | null {
  if (status !== 'interrupted' || stop_reason === 'asked_user') return null
  return stop_reason === 'shutdown' ? t('The server was stopped before the answer was complete.') : t('Stopped.')
}

/** Why a run has failed, in words for people. */
export function failureOf({ error, stop_reason }: Run): string {
  if (stop_reason === 'server_restart')
    return t('The server went down in the middle of it. What had come by then is here.')
  return error ?? t('The run failed')
}

export const isInFlight = ({ status }: Run): boolean => status === 'pending' || status === 'running'
export const isFailed = ({ status }: Run): boolean => status === 'error' || status === 'timeout'

/** Arguments of a tool call; {}: they are not whole. */
export function argsOf(json: string): Record<string, unknown> {
  try {
    return JSON.parse(json)
  } catch {
    return {}
  }
}

export function short(args: string): string {
  const plain = args.replace(/\s+/g, ' ')
  return plain === '{}' || plain === '' ? '' : plain.length > 60 ? `${plain.slice(0, 60)}…` : plain
}

export function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
