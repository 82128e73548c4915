// Uploads of a thread: send, list, delete. A page may upload before it has created its thread [design 5].
import { extname } from 'node:path'
import { Failure, fail, Invalid } from '../base/errors.ts'
import { VIRTUAL_ROOT, PathError } from '../files/paths.ts'
import { UploadError } from '../files/upload-receiver.ts'
import type { Received, Upload } from '../files/publication.ts'
import { type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { askForBody } from '../http/body.ts'
import { areFilesHeld, refuseHeldFiles } from '../thread/holds.ts'
import { issue } from '../http/schema.ts'
import { anything, arrayOf, int, one, ref, shaped, success, text, yesNo } from './answers.ts'
import type { Services } from './services.ts'

export function uploadRoutes({ uploads, store, isValid }: Pick<Services, 'uploads' | 'store' | 'isValid'>): Route[] {
  const upload = async (call: UserCall): Promise<Reply> => {
    const threadId = call.params.thread_id!
    const owner = await store.threads.ownerOf(threadId)
    // A large upload takes minutes: the session may have ended meanwhile, and the thread may have been deleted.
    const check = async () => {
      if (call.grant === null || !(await isValid(call.grant))) throw fail('token_revoked')
      if ((await store.threads.ownerOf(threadId)) !== owner) throw fail('thread_not_found', { id: threadId })
      return { replaces: !(await areFilesHeld(store, threadId, call.user.id)) }
    }
    askForBody(call.req)
    const received = await uploads.receive(call.req, threadId, call.user.id, check).catch(refused)
    return { json: receivedView(received, threadId) }
  }

  const list = async (call: UserCall): Promise<Reply> => {
    const threadId = call.params.thread_id!
    const found = await uploads.list(threadId, call.user.id)
    const files = found.map((file) => {
      const { filename, modified } = file
      return { ...uploadView(file, threadId), extension: extname(filename), modified }
    })
    return { json: { files, count: files.length } }
  }

  const remove = async (call: UserCall): Promise<Reply> => {
    const filename = call.params.filename!
    await refuseHeldFiles(store, call.params.thread_id!, call.user.id)
    const isRemoved = await uploads.remove(call.params.thread_id!, call.user.id, filename).catch(refused)
    if (!isRemoved) throw fail('file_not_found', { name: filename })
    return { json: { success: true, message: `Deleted ${filename}` } }
  }

  const path = '/api/threads/{thread_id}/uploads'
  const reading = { method: 'GET', permission: 'threads:read', thread: 'read', rule: 'threads:read' } as const
  const files = arrayOf(ref('Upload'))
  return [
    route({
      method: 'POST',
      path,
      permission: 'threads:write',
      thread: 'read',
      rule: 'threads:update',
      bodyLimit: 'streamed',
      summary: 'Upload files',
      answers: one(shaped({ success: yesNo, files, message: text, skipped_files: arrayOf(anything) })),
      refusals: [408, 413, 429],
      handler: upload
    }),
    route({
      ...reading,
      link: 'files',
      path: `${path}/list`,
      summary: 'List uploaded files',
      answers: one(shaped({ files, count: int })),
      handler: list
    }),
    route({
      ...reading,
      path: `${path}/limits`,
      summary: 'Limits on the number and size of uploads',
      answers: one(shaped({ max_files: int, max_file_size: int, max_total_size: int, user_bytes: int })),
      handler: () => ({ json: uploads.limits })
    }),
    // A page uploads before it creates its thread, and may think better of it.
    route({
      method: 'DELETE',
      refusals: [409],
      path: `${path}/{filename}`,
      permission: 'threads:delete',
      thread: 'read',
      rule: 'threads:delete',
      summary: 'Delete an uploaded file',
      answers: success,
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

/** `path` is the virtual path: clients must not learn where our home is [contract 6.1]. */
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

/** @throws the Failure for known problems, else the error itself */
function refused(error: unknown): never {
  if (error instanceof UploadError) throw uploadFailure(error)
  if (error instanceof PathError && (error.problem === 'escapes' || error.problem === 'not_a_file'))
    throw fail('file_path_invalid')
  throw error
}

const UPLOAD_CODES = {
  no_files: 'no_files',
  malformed: 'upload_malformed',
  cut: 'body_cut',
  too_many_files: 'too_many_files',
  file_too_large: 'file_too_large',
  over_quota: 'files_over_quota',
  total_too_large: 'files_too_large'
} as const

function uploadFailure({ problem, limit }: UploadError): Failure {
  if (problem === 'no_files_part') return new Invalid([issue('missing', ['body', 'files'])])
  return new Failure(UPLOAD_CODES[problem], { limit })
}
