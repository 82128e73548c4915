// Uploads of a thread: put files beside it, list them, delete one. A page may upload before it has made its thread [design 5].
import { extname } from 'node:path'
import { fail, Invalid } from '../errors.ts'
import { VIRTUAL_ROOT, PathError } from '../files/paths.ts'
import { UploadError } from '../files/upload-receiver.ts'
import type { Received, Upload } from '../files/publication.ts'
import type { Reply, UserCall } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { issue } from '../http/schema.ts'
import type { Services } from './services.ts'

export function uploadRoutes({ uploads, store, isValid }: Pick<Services, 'uploads' | 'store' | 'isValid'>): Route[] {
  const upload = async (call: UserCall): Promise<Reply> => {
    const threadId = call.params.thread_id!
    const owner = await store.threads.ownerOf(threadId)
    // A large upload takes minutes: the session may have ended since, and the thread may be gone.
    const check = async (): Promise<void> => {
      if (call.grant === null || !(await isValid(call.grant))) throw fail('token_revoked')
      if ((await store.threads.ownerOf(threadId)) !== owner) throw fail('thread_not_found', { id: threadId })
    }
    try {
      return { json: receivedView(await uploads.receive(call.req, threadId, call.user.id, check), threadId) }
    } catch (error) {
      throw refused(error)
    }
  }

  const list = async (call: UserCall): Promise<Reply> => {
    const threadId = call.params.thread_id!
    const found = await uploads.list(threadId, call.user.id)
    const files = found.map((file) => ({
      ...uploadView(file, threadId),
      extension: extname(file.filename),
      modified: file.modified
    }))
    return { json: { files, count: files.length } }
  }

  const remove = async (call: UserCall): Promise<Reply> => {
    const { thread_id, filename } = { thread_id: call.params.thread_id!, filename: call.params.filename! }
    try {
      const isRemoved = await uploads.remove(thread_id, call.user.id, filename)
      if (!isRemoved) throw fail('file_not_found', { name: filename })
      return { json: { success: true, message: `Deleted ${filename}` } }
    } catch (error) {
      throw refused(error)
    }
  }

  const path = '/api/threads/{thread_id}/uploads'
  const reading = { method: 'GET', permission: 'threads:read', thread: 'read' } as const
  return [
    route({
      method: 'POST',
      path,
      permission: 'threads:write',
      thread: 'read',
      bodyLimit: 'streamed',
      handler: upload
    }),
    route({ ...reading, path: `${path}/list`, handler: list }),
    route({ ...reading, path: `${path}/limits`, handler: () => ({ json: uploads.limits }) }),
    route({
      method: 'DELETE',
      path: `${path}/{filename}`,
      permission: 'threads:delete',
      thread: 'write',
      handler: remove
    })
  ]
}

function receivedView({ files, skipped }: Received, threadId: string) {
  return {
    success: true,
    files: files.map((file) => ({
      ...uploadView(file, threadId),
      ...(file.original !== null && { original_filename: file.original }),
      ...(file.markdown !== undefined && markdownView(file.markdown, threadId))
    })),
    message: `Successfully uploaded ${files.length} file(s)`,
    skipped_files: skipped
  }
}

/** `path` is the virtual one: where the home lies on this machine is nobody's business [contract 6.1]. */
function uploadView({ filename, size }: Upload, threadId: string) {
  const virtualPath = virtualPathOf(filename)
  return { filename, size, path: virtualPath, virtual_path: virtualPath, artifact_url: urlOf(filename, threadId) }
}

function markdownView(filename: string, threadId: string) {
  const virtualPath = virtualPathOf(filename)
  return {
    markdown_file: filename,
    markdown_path: virtualPath,
    markdown_virtual_path: virtualPath,
    markdown_artifact_url: urlOf(filename, threadId)
  }
}

function virtualPathOf(filename: string): string {
  return `${VIRTUAL_ROOT}/uploads/${filename}`
}

function urlOf(filename: string, threadId: string): string {
  return `/api/threads/${threadId}/artifacts${VIRTUAL_ROOT}/uploads/${encodeURIComponent(filename)}`
}

/** @throws Failure where the table of errors has the answer, else the error itself */
function refused(error: unknown): never {
  if (error instanceof UploadError) refusedUpload(error)
  if (error instanceof PathError && (error.problem === 'escapes' || error.problem === 'not_a_file'))
    throw fail('file_path_invalid')
  throw error
}

function refusedUpload({ problem, limit }: UploadError): never {
  switch (problem) {
    case 'no_files_part':
      throw new Invalid([issue('missing', ['body', 'files'])])
    case 'no_files':
      throw fail('no_files')
    case 'malformed':
      throw fail('upload_malformed')
    case 'cut':
      throw fail('body_cut')
    case 'too_many_files':
      throw fail('too_many_files', { limit })
    case 'file_too_large':
      throw fail('file_too_large', { limit })
    case 'over_quota':
      throw fail('files_over_quota', { limit })
    case 'total_too_large':
      throw fail('files_too_large', { limit })
  }
}
