// Tells the model which files the user has uploaded; it reads them with its tools.
import { VIEW_IMAGE, VIRTUAL_ROOT } from '../tools.ts'
import { type Middleware, type MiddlewareContext, oncePerRun } from '../middleware.ts'
import { CallRoom, type Picture } from '../pictures.ts'
import type { Json, ToolMessage } from '../../base/types.ts'

/** File access for this middleware. */
interface UploadsPort {
  /** False: the thread has no file at all. Most have none, and their first model call waits for nothing. */
  hasFiles(threadId: string, userId: string): boolean
  list(
    threadId: string,
    userId: string,
    path: string
  ): Promise<{ readonly files: readonly { readonly path: string; readonly size: number }[] }>
}

const TAG = 'uploads'
const FOLDER = `${VIRTUAL_ROOT}/uploads`
/** Maximum files in the prompt; list_files shows the others. */
const NAMED = 50
const HEAD = 'Files that the user has uploaded. Read them with read_file, or search them with search_files:'
const IMAGES = 'Look at those that are images with view_image.'

export function uploadsMiddleware(files: UploadsPort, defaultUser: string): Middleware {
  const isFirst = oncePerRun()
  return {
    tag: TAG,
    async beforeModel(run) {
      if (!isFirst(run)) return
      const { threadId, userId } = run.input
      const owner = userId ?? defaultUser
      if (!files.hasFiles(threadId, owner)) return run.instruct(TAG, null)
      // A thread without uploads has no folder for them.
      const { files: found } = await files.list(threadId, owner, FOLDER).catch(() => ({ files: [] }))
      if (found.length === 0) return run.instruct(TAG, null)
      const paths = new Set(found.map(({ path }) => path))
      const lines = found.slice(0, NAMED).map(({ path, size }) => `- ${path} (${size} bytes${textOf(path, paths)})`)
      if (found.length > NAMED) lines.push(`- and ${found.length - NAMED} more`)
      run.instruct(TAG, [HEAD, ...lines, ...(run.takesImages ? [IMAGES] : [])].join('\n'))
    }
  }
}

/** Names the Markdown copy of a document, which cannot be read itself. */
function textOf(path: string, paths: ReadonlySet<string>): string {
  const stem = /^(.+)\.(?:pdf|docx|pptx|xlsx)$/i.exec(path)?.[1]
  const text = stem && [`${path}.md`, `${stem}.md`].find((one) => paths.has(one))
  return text ? `; its text: ${text}` : ''
}

// ------------------------------------------------------------------------------------------------------------ folders

const THREAD_DATA = {
  workspace_path: `${VIRTUAL_ROOT}/workspace`,
  uploads_path: `${VIRTUAL_ROOT}/uploads`,
  outputs_path: `${VIRTUAL_ROOT}/outputs`
}

export const threadDataMiddleware: Middleware = {
  tag: 'thread_data',
  async beforeModel(run) {
    if (run.channel('thread_data') === undefined) await run.update({ thread_data: THREAD_DATA })
  }
}

// ----------------------------------------------------------------------------------------------------
// Shows the model the images it requested with view_image, and those that tools have made: after the tool results of their turn, and only
// until the user's next message, because images cost tokens in every call. Bytes of files are read each time; states and traces have none.

/** File access for this middleware. */
interface ImagesPort {
  /** Rejects if there is no image that models accept. */
  image(threadId: string, userId: string, path: string): Promise<Picture>
}

const IMAGES_TAG = 'images'

export function imagesMiddleware(files: ImagesPort, defaultUser: string): Middleware {
  return {
    tag: IMAGES_TAG,
    async beforeModel(run) {
      if (!run.takesImages) return
      const { threadId, userId } = run.input
      // null: it was deleted since.
      const inFile = (path: string) => files.image(threadId, userId ?? defaultUser, path).catch(() => null)
      const shown = new Map<string, Json[]>()
      const room = new CallRoom()
      for (const { behind, about, path, made } of newestFirst(run)) {
        const image = room.isFull || path === null ? made : await inFile(path)
        const isShown = image !== null && room.take(image.bytes.length)
        shown.set(behind, [...(isShown ? picture(about, image) : absence(about)), ...(shown.get(behind) ?? [])])
      }
      run.show(shown)
    }
  }
}

function picture(about: string, { mimeType, bytes }: Picture): Json[] {
  const url = `data:${mimeType};base64,${bytes.toString('base64')}`
  return [
    { type: 'text', text: `${about}:` },
    { type: 'image_url', image_url: { url } }
  ]
}

function absence(about: string): Json[] {
  return [{ type: 'text', text: `${about} is not shown any more.` }]
}

interface Viewing {
  /** Id of the first result of its turn with an image, after which the images are shown. */
  readonly behind: string
  /** What the model is told it is. */
  readonly about: string
  /** null: no file. */
  readonly path: string | null
  /** By a tool. */
  readonly made: Picture | null
}

type Run = Pick<MiddlewareContext, 'messages' | 'pictures'>

/** Images since the user's last message, each file once, newest first. */
function newestFirst(run: Run): Viewing[] {
  const seen = new Set<string>()
  return viewings(run)
    .reverse()
    .filter(({ path }) => path === null || (!seen.has(path) && seen.add(path)))
}

function viewings(run: Run): Viewing[] {
  const messages = run.messages()
  const paths = new Map<string, string>()
  const found: Viewing[] = []
  let behind: string | null = null
  for (const message of messages.slice(messages.findLastIndex(({ type }) => type === 'human') + 1)) {
    if (message.type === 'ai') {
      behind = null
      for (const { id, args } of message.tool_calls) if (typeof args.path === 'string') paths.set(id, args.path)
    }
    if (message.type !== 'tool') continue
    const path = isViewing(message) ? paths.get(message.tool_call_id) : undefined
    const pictures = run.pictures(message.id)
    if (path === undefined && pictures.length === 0) continue
    behind ??= message.id
    if (path !== undefined) found.push({ behind, about: path, path, made: null })
    for (const made of pictures) found.push({ behind, about: `An image of ${message.name}`, path: null, made })
  }
  return found
}

function isViewing({ name, status }: ToolMessage): boolean {
  return name === VIEW_IMAGE && status === 'success'
}
