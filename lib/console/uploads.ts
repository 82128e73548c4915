// Uploads to a thread: dropped, pasted or picked files, with progress. Without a server they wait on the device, and go with their message.
import { signal } from '@preact/signals'
import { ApiError, csrfToken } from '../client/colloquy.ts'
import { call, textOf } from './api.ts'
import { BASE } from './base.ts'
import { artifactUrl, kindOf } from './files.ts'
import type { Attached } from './records.ts'
import { readKept, writeKept } from './device.ts'
import { keepDraft, keptDraft } from './tab-storage.ts'
import { notify, notifyFailure } from './toast.ts'
import { t } from './words.ts'

interface Upload {
  readonly id: number
  readonly name: string
  readonly size: number
  /** 0 to 1. */
  readonly progress: number
  /** null: not uploaded. */
  readonly file: Attached | null
  /** Its upload has not reached the server. */
  readonly isWaiting?: boolean
  /** The address of its thumbnail; null: it is no picture. */
  readonly picture: string | null
}

let count = 0
/** How often a file that waits is tried again, in ms. */
const AGAIN_MS = 5000
/** Those under way or attached to a draft, by thread. */
const drafts = new Map<string, Uploads>()

export class Uploads {
  readonly list = signal<readonly Upload[]>([])
  readonly #threadId: string
  readonly #name: string
  readonly #requests = new Map<number, XMLHttpRequest>()
  /** Files that are not uploaded, which the device keeps. */
  readonly #unloaded = new Map<number, File>()

  private constructor(threadId: string) {
    this.#threadId = threadId
    this.#name = `colloquy.files.${threadId}`
    const text = keptDraft(this.#name)
    // Written by `#show`.
    this.restore(text === null ? [] : (JSON.parse(text) as Attached[]))
    void readKept<readonly File[]>('files', this.#name).then((files) => files && this.add(files))
  }

  /** The files of a thread's draft: kept while another thread is open, and over a reload. */
  static of(threadId: string): Uploads {
    const known = drafts.get(threadId) ?? new Uploads(threadId)
    drafts.set(threadId, known)
    return known
  }

  /** The server may be back: sends what waits, in every draft. */
  static retry(): void {
    for (const draft of drafts.values()) draft.#again()
  }

  get isBusy(): boolean {
    return this.list.value.some(({ file, isWaiting }) => file === null && !isWaiting)
  }

  /** Those that go with their message. */
  get unloaded(): readonly File[] {
    return [...this.#unloaded.values()]
  }

  get done(): readonly Attached[] {
    return this.list.value.flatMap(({ file }) => file ?? [])
  }

  add(files: Iterable<File>): void {
    for (const file of files) this.#send(count++, file)
    this.#keepUnloaded()
  }

  /** Takes a file back, which the agent would otherwise still find. */
  remove(id: number): void {
    const filename = this.list.value.find((one) => one.id === id)?.file?.filename
    this.#forget(id)
    const isNamed = (one: Upload) => (one.file?.filename ?? one.name) === filename
    // The same file attached twice is stored once.
    if (filename === undefined || this.list.value.some(isNamed)) return
    call('DELETE', `/api/threads/${this.#threadId}/uploads/${encodeURIComponent(filename)}`).catch(notifyFailure)
  }

  #forget(id: number): void {
    this.#requests.get(id)?.abort()
    this.#requests.delete(id)
    this.#show(this.list.value.filter((one) => one.id !== id))
    if (this.#unloaded.delete(id)) this.#keepUnloaded()
  }

  #keepUnloaded(): void {
    void writeKept('files', this.#name, this.#unloaded.size > 0 ? this.unloaded : null)
  }

  /** The server may be back. */
  #again(): void {
    for (const { id, isWaiting } of this.list.value) if (isWaiting) this.#send(id, this.#unloaded.get(id)!)
  }

  clear(): void {
    this.#show([])
    this.#unloaded.clear()
    this.#keepUnloaded()
  }

  /** Attaches what has been uploaded before. */
  restore(files: readonly Attached[]): void {
    const uploads = files.map((file) => ({
      id: count++,
      name: file.filename,
      size: file.size,
      progress: 1,
      file,
      picture: pictureOf(this.#threadId, file)
    }))
    this.#show([...this.list.value, ...uploads])
  }

  #show(list: readonly Upload[]): void {
    this.list.value = list
    keepDraft(this.#name, this.done.length > 0 ? JSON.stringify(this.done) : '')
  }

  /** XMLHttpRequest, because fetch does not report upload progress. */
  #send(id: number, file: File): void {
    const upload = { id, name: file.name, size: file.size, progress: 0, file: null, picture: null }
    this.#show([...this.list.value.filter((one) => one.id !== id), upload])
    this.#unloaded.set(id, file)
    const request = new XMLHttpRequest()
    this.#requests.set(id, request)
    const form = new FormData()
    form.append('files', file, file.name || 'pasted')
    request.upload.onprogress = ({ loaded, total }) => this.#change(id, { progress: total ? loaded / total : 0 })
    request.onload = () => this.#answered(id, file.name, request)
    request.onerror = () => this.#change(id, { isWaiting: true })
    request.open('POST', `${BASE}/api/threads/${this.#threadId}/uploads`)
    request.setRequestHeader('X-CSRF-Token', csrfToken() ?? '')
    request.send(form)
  }

  #answered(id: number, name: string, { status, responseText }: XMLHttpRequest): void {
    this.#requests.delete(id)
    const answer = jsonOf(responseText)
    const [file] = answer.files ?? []
    if (status === 200 && file) {
      this.#change(id, { progress: 1, file, picture: pictureOf(this.#threadId, file) })
      this.#unloaded.delete(id)
      return this.#keepUnloaded()
    }
    this.#failed(id, name, status === 200 ? t('it was not taken') : textOf(new ApiError(status, answer.detail, null)))
  }

  #failed(id: number, name: string, reason: string): void {
    this.#forget(id)
    notify(`${name}: ${reason}`, true)
  }

  #change(id: number, change: Partial<Upload>): void {
    this.#show(this.list.value.map((one) => (one.id === id ? { ...one, ...change } : one)))
  }
}

addEventListener('online', Uploads.retry)
setInterval(Uploads.retry, AGAIN_MS)

function pictureOf(threadId: string, { filename, virtual_path }: Attached): string | null {
  return kindOf(filename) === 'image' ? artifactUrl(threadId, virtual_path) : null
}

function jsonOf(text: string): { files?: Attached[]; detail?: unknown } {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
