// Uploads to a thread: dropped, pasted or picked files, with progress. Without a server they wait on the device, and go with their message.
import { signal } from '@preact/signals'
import { ApiError, csrfToken, isFinal } from '../client/colloquy.ts'
import { call, textOf } from './api.ts'
import { BASE } from './base.ts'
import { type Attached, pictureOf } from './files.ts'
import { type Extra, isBlock, lookOf } from './records.ts'
import { readKept, writeKept } from './device.ts'
import { keepDraft, keptDraft } from './tab-storage.ts'
import { notify, notifyFailure } from './toast.ts'
import { t } from './words.ts'

interface Upload {
  readonly id: number
  readonly name: string
  /** null: it is no file. */
  readonly size: number | null
  /** 0 to 1. */
  readonly progress: number
  /** What goes with the message; null: not uploaded. */
  readonly done: Extra | null
  /** Its upload has not reached the server, or was put off. */
  readonly isWaiting?: boolean
  /** It is not tried again sooner, as performance.now. */
  readonly notBefore?: number
  /** The address of its thumbnail; null: it is no picture. */
  readonly picture: string | null
}

let count = 0
/** How often a file that waits is tried again, in ms. */
const AGAIN_MS = 5000
/** How long nothing may move of an upload, in ms, until it waits for the server; and of one that is whole, which is read there. */
const SILENT_MS = 15_000
const READ_MS = 45_000
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
    this.restore(text === null ? [] : (JSON.parse(text) as Extra[]))
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
    return this.list.value.some(({ done, isWaiting }) => done === null && !isWaiting)
  }

  /** Those that go with their message. */
  get unloaded(): readonly File[] {
    return [...this.#unloaded.values()]
  }

  get done(): readonly Extra[] {
    return this.list.value.map(({ done }) => done).filter((done) => done !== null)
  }

  add(files: Iterable<File>): void {
    for (const file of files) this.#send(count++, file)
    this.#keepUnloaded()
  }

  /** Takes a file back, which the agent would otherwise still find. */
  remove(id: number): void {
    const done = this.list.value.find((one) => one.id === id)?.done ?? null
    this.#forget(id)
    if (done === null || isBlock(done)) return
    const { filename } = done
    const isNamed = ({ name, done }: Upload) => (done === null ? name : lookOf(done).name) === filename
    // The same file attached twice is stored once.
    if (this.list.value.some(isNamed)) return
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
    const now = performance.now()
    for (const { id, isWaiting, notBefore = now } of this.list.value)
      if (isWaiting && now >= notBefore) this.#send(id, this.#unloaded.get(id)!)
  }

  clear(): void {
    this.#show([])
    this.#unloaded.clear()
    this.#keepUnloaded()
  }

  /** Attaches what has been uploaded before, or was beside the words of another client's message. */
  restore(extras: readonly Extra[]): void {
    const uploads = extras.map((done) => ({ id: count++, progress: 1, done, ...this.#lookOf(done) }))
    this.#show([...this.list.value, ...uploads])
  }

  #lookOf(extra: Extra): Pick<Upload, 'name' | 'size' | 'picture'> {
    if (isBlock(extra)) return { ...lookOf(extra), size: null }
    return { name: extra.filename, size: extra.size, picture: pictureOf(this.#threadId, extra) }
  }

  #show(list: readonly Upload[]): void {
    this.list.value = list
    keepDraft(this.#name, this.done.length > 0 ? JSON.stringify(this.done) : '')
  }

  /** XMLHttpRequest, because fetch does not report upload progress. */
  #send(id: number, file: File): void {
    const upload = { id, name: file.name, size: file.size, progress: 0, done: null, picture: null }
    this.#show([...this.list.value.filter((one) => one.id !== id), upload])
    this.#unloaded.set(id, file)
    const request = new XMLHttpRequest()
    this.#requests.set(id, request)
    const form = new FormData()
    form.append('files', file, file.name || 'pasted')
    let silence: ReturnType<typeof setTimeout> | undefined
    const moves = (ms: number) => {
      clearTimeout(silence)
      silence = setTimeout(() => request.abort(), ms)
    }
    moves(SILENT_MS)
    request.upload.onprogress = ({ loaded, total }) => {
      moves(SILENT_MS)
      this.#change(id, { progress: total ? loaded / total : 0 })
    }
    request.upload.onload = () => moves(READ_MS)
    request.onload = () => {
      clearTimeout(silence)
      this.#answered(id, file.name, request)
    }
    request.onerror = request.onabort = () => {
      clearTimeout(silence)
      this.#change(id, { isWaiting: true })
    }
    request.open('POST', `${BASE}/api/threads/${this.#threadId}/uploads`)
    request.setRequestHeader('X-CSRF-Token', csrfToken() ?? '')
    request.send(form)
  }

  #answered(id: number, name: string, request: XMLHttpRequest): void {
    this.#requests.delete(id)
    const { status } = request
    const answer = jsonOf(request.responseText)
    const [file] = answer.files ?? []
    if (status === 200 && file) {
      this.#change(id, { progress: 1, done: file, picture: pictureOf(this.#threadId, file) })
      this.#unloaded.delete(id)
      return this.#keepUnloaded()
    }
    if (status === 200) return this.#failed(id, name, t('it was not taken'))
    // A date is no number: it is tried again as after a lost network.
    const ms = Number(request.getResponseHeader('retry-after')) * 1000 || 0
    const error = new ApiError(status, answer.detail, ms)
    if (isFinal(error)) return this.#failed(id, name, textOf(error))
    this.#change(id, { isWaiting: true, notBefore: performance.now() + ms })
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

function jsonOf(text: string): { files?: Attached[]; detail?: unknown } {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
