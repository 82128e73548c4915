// Tells the model which files the user has uploaded; it reads them with its tools.
import { VIRTUAL_ROOT } from '../tools.ts'
import { type Middleware, oncePerRun } from './middleware.ts'

/** File access for this middleware. */
interface UploadsPort {
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
      // A thread without uploads has no folder for them.
      const { files: found } = await files.list(threadId, userId ?? defaultUser, FOLDER).catch(() => ({ files: [] }))
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
