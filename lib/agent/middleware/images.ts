// Shows the model the images it requested with view_image: after the tool results of their turn, and only until the user's next
// message, because images cost tokens in every call. Bytes are read from files each time; states and traces have none.
import type { Json, Message, ToolMessage } from '../../base/types.ts'
import { VIEW_IMAGE } from '../tools.ts'
import type { Middleware } from './middleware.ts'

/** File access for this middleware. */
interface ImagesPort {
  /** Rejects if there is no image that models accept. */
  image(threadId: string, userId: string, path: string): Promise<Picture>
}
interface Picture {
  readonly mimeType: string
  readonly bytes: Buffer
}

const TAG = 'images'
/** Limits of one model call, newest images first: servers refuse larger requests. */
const SHOWN_BYTES = 12 << 20
const SHOWN_MAX = 20

export function imagesMiddleware(files: ImagesPort, defaultUser: string): Middleware {
  return {
    tag: TAG,
    async beforeModel(run) {
      if (!run.takesImages) return
      const { threadId, userId } = run.input
      const shown = new Map<string, Json[]>()
      let left = SHOWN_BYTES
      for (const [at, { behind, path }] of newestFirst(run.messages()).entries()) {
        // null: it was deleted since.
        const image = at < SHOWN_MAX ? await files.image(threadId, userId ?? defaultUser, path).catch(() => null) : null
        const isShown = image !== null && image.bytes.length <= left
        if (isShown) left -= image.bytes.length
        shown.set(behind, [...(isShown ? picture(path, image) : absence(path)), ...(shown.get(behind) ?? [])])
      }
      run.show(shown)
    }
  }
}

function picture(path: string, { mimeType, bytes }: Picture): Json[] {
  const url = `data:${mimeType};base64,${bytes.toString('base64')}`
  return [
    { type: 'text', text: `${path}:` },
    { type: 'image_url', image_url: { url } }
  ]
}

function absence(path: string): Json[] {
  return [{ type: 'text', text: `${path} is not shown any more.` }]
}

interface Viewing {
  /** Id of the first view_image result of its turn, after which the images are shown. */
  readonly behind: string
  readonly path: string
}

/** Images viewed since the user's last message, each once, newest first. */
function newestFirst(messages: readonly Message[]): Viewing[] {
  const byPath = new Map<string, Viewing>()
  for (const viewing of viewings(messages).reverse()) if (!byPath.has(viewing.path)) byPath.set(viewing.path, viewing)
  return [...byPath.values()]
}

function viewings(messages: readonly Message[]): Viewing[] {
  const paths = new Map<string, string>()
  const found: Viewing[] = []
  let behind: string | null = null
  for (const message of messages.slice(messages.findLastIndex(({ type }) => type === 'human') + 1)) {
    if (message.type === 'ai') {
      behind = null
      for (const { id, args } of message.tool_calls) if (typeof args.path === 'string') paths.set(id, args.path)
    }
    if (message.type !== 'tool' || !isViewing(message)) continue
    behind ??= message.id
    const path = paths.get(message.tool_call_id)
    if (path !== undefined) found.push({ behind, path })
  }
  return found
}

function isViewing({ name, status }: ToolMessage): boolean {
  return name === VIEW_IMAGE && status === 'success'
}
