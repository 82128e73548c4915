// Tries an API call with the page's session.
import { useEffect, useRef, useState } from 'preact/hooks'
import { csrfToken } from '../client/colloquy.ts'
import { BASE } from './base.ts'
import { addressOf, type Filled, headersOf, type Operation, type Parameter } from './docs-model.ts'
import { html } from './html.ts'

/** Characters of an answer that are shown. */
const SHOWN_MAX = 200_000

interface Told {
  readonly head: string
  readonly text: string
  readonly isOver: boolean
}
interface TryProps {
  readonly operation: Operation
  readonly filled: Filled
  readonly onChange: (filled: Filled) => void
}

export function Try({ operation, filled, onChange }: TryProps) {
  const { parameters = [], requestBody, path } = operation
  const [told, setTold] = useState<Told | null>(null)
  const [file, setFile] = useState<File | null>(null)
  const stop = useRef<AbortController | null>(null)
  useEffect(() => () => stop.current?.abort(), [])
  const isUpload = requestBody?.content['multipart/form-data'] !== undefined
  const takesJson = requestBody?.content['application/json'] !== undefined
  const isMissing = [...path.matchAll(/\{(\w+)\}/g)].some(([, name]) => !filled.values[name ?? ''])
  const set = (name: string, value: string) => onChange({ ...filled, values: { ...filled.values, [name]: value } })

  const send = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    stop.current?.abort()
    const asking = new AbortController()
    stop.current = asking
    let answer: Told = { head: 'Asking', text: '', isOver: false }
    const tell = (next: Partial<Told>) => {
      answer = { ...answer, ...next }
      if (stop.current === asking) setTold(answer)
    }
    tell({})
    try {
      const response = await ask(operation, filled, file, asking.signal)
      tell({ head: `${response.status} ${response.statusText}` })
      for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? [])
        tell({ text: (answer.text + text).slice(0, SHOWN_MAX) })
      tell({ text: pretty(answer.text), isOver: true })
    } catch (error) {
      const isStopped = asking.signal.aborted
      tell({ head: isStopped ? `${answer.head}, stopped` : 'No answer', isOver: true })
      if (!isStopped) tell({ text: error instanceof Error ? error.message : String(error) })
    }
  }

  return html`<form class="try" onSubmit=${send}>
    ${parameters.filter(({ name }) => name !== 'X-CSRF-Token').map((one) => html`<${Field} key=${one.in + one.name} parameter=${one} value=${filled.values[one.name] ?? ''} onChange=${set} />`)}
    ${
      takesJson &&
      html`<label for="body">Body</label>
      <textarea id="body" spellcheck=${false} rows=${Math.min(16, filled.body.split('\n').length + 1)} value=${filled.body} onInput=${(
        event: InputEvent
      ) => {
        if (event.target instanceof HTMLTextAreaElement) onChange({ ...filled, body: event.target.value })
      }}></textarea>`
    }
    ${
      isUpload &&
      html`<label for="file">File</label><input id="file" type="file" onChange=${(event: Event) => {
        if (event.target instanceof HTMLInputElement) setFile(event.target.files?.[0] ?? null)
      }} />`
    }
    <div class="row">
      <button class="primary" disabled=${isMissing || (isUpload && !file)}>Send</button>
      ${told && !told.isOver && html`<button type="button" class="plain" onClick=${() => stop.current?.abort()}>Stop</button>`}
      <span class="hint">${csrfToken() ? 'With your session.' : html`You are not signed in. <a href=${`${BASE}/`}>Sign in</a>`}</span>
    </div>
    ${told && html`<p class="status" role="status">${told.head}</p><pre class="call told" tabindex="0" aria-label="The answer"><code>${told.text}</code></pre>`}
  </form>`
}

interface FieldProps {
  readonly parameter: Parameter
  readonly value: string
  readonly onChange: (name: string, value: string) => void
}

function Field({ parameter, value, onChange }: FieldProps) {
  const { name, in: where, schema, description } = parameter
  const id = `${where}-${name}`
  const change = (event: Event) => {
    const { target } = event
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) onChange(name, target.value)
  }
  const choices = schema.type === 'boolean' ? [true, false] : schema.enum
  return html`<label for=${id}>${name}</label>
    ${
      choices
        ? html`<select id=${id} value=${value} onChange=${change}><option value=""></option>${choices.map((one) => html`<option>${String(one)}</option>`)}</select>`
        : html`<input id=${id} value=${value} placeholder=${description} required=${where === 'path'} autocomplete="off" onInput=${change} />`
    }`
}

function ask(operation: Operation, filled: Filled, file: File | null, signal: AbortSignal): Promise<Response> {
  const { method, requestBody } = operation
  const csrf = csrfToken()
  const headers = new Headers(headersOf(operation, filled))
  if (method !== 'GET' && csrf) headers.set('X-CSRF-Token', csrf)
  let body: BodyInit | null = null
  if (file && requestBody?.content['multipart/form-data']) {
    body = new FormData()
    body.append('files', file)
  } else if (requestBody && filled.body !== '') {
    headers.set('Content-Type', 'application/json')
    body = filled.body
  }
  return fetch(BASE + addressOf(operation, filled), { method, headers, body, signal })
}

function pretty(text: string): string {
  if (text.length > SHOWN_MAX / 4) return text
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
