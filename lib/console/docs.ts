// The API reference: /openapi.json, searchable, callable with the reader's session, and as code.
import { computed, signal } from '@preact/signals'
import { type ComponentChildren, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { BASE } from './base.ts'
import {
  type ApiDocument,
  curlOf,
  exampleOf,
  type Filled,
  groupsOf,
  type Operation,
  operationsOf,
  resolved,
  responseOf,
  type Response,
  type Schema,
  typeOf,
  typescriptOf
} from './docs-model.ts'
import { Try } from './docs-try.ts'
import { classes, html } from './html.ts'

const api = signal<ApiDocument | null>(null)
const problem = signal('')
const search = signal('')
const opened = signal(location.hash.replace(/^#\/?/, ''))
const operations = computed(() => (api.value ? operationsOf(api.value) : []))
const groups = computed(() => groupsOf(operations.value, search.value))

addEventListener('hashchange', () => {
  opened.value = location.hash.replace(/^#\/?/, '')
  document.querySelector('.reference')?.scrollTo(0, 0)
})
addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select')
  if (event.key !== '/' || isTyping) return
  event.preventDefault()
  document.getElementById('search')?.focus()
})

async function load(): Promise<void> {
  problem.value = ''
  try {
    const response = await fetch(`${BASE}/openapi.json`)
    if (!response.ok) throw new Error(`the server answered ${response.status}`)
    api.value = (await response.json()) as ApiDocument
  } catch (error) {
    problem.value = `The description could not be read: ${error instanceof Error ? error.message : String(error)}`
  }
}

function Page() {
  if (!api.value)
    return html`<main class="reference"><p class="first" role="status">${problem.value || 'Colloquy API'}</p>
      ${problem.value && html`<button class="plain" onClick=${() => void load()}>Try again</button>`}</main>`
  const operation = operations.value.find(({ operationId }) => operationId === opened.value)
  return html`<${Index} />
    <main class="reference" tabindex="-1">
      ${operation ? html`<${Reference} key=${operation.operationId} api=${api.value} operation=${operation} />` : opened.value === 'events' ? html`<${Events} api=${api.value} />` : html`<${Start} api=${api.value} />`}
    </main>`
}

// --------------------------------------------------------------------------------------------------- index

function Index() {
  const found = groups.value.reduce((sum, [, list]) => sum + list.length, 0)
  return html`<nav class="index" aria-label="Operations">
    <header><a class="home" href="#/">Colloquy API</a><a href=${`${BASE}/`}>Chat</a></header>
    <label class="spoken" for="search">Search</label>
    <input id="search" type="search" placeholder="Search ( / )" value=${search.value} onInput=${(event: InputEvent) => {
      search.value = event.target instanceof HTMLInputElement ? event.target.value : ''
    }} />
    <p class="spoken" role="status">${search.value && `${found} operations`}</p>
    <div class="list">
      ${groups.value.map(
        ([name, list]) => html`<section key=${name}>
          <h2>${name}</h2>
          <ul>${list.map((one) => html`<li key=${one.operationId}><${Entry} operation=${one} /></li>`)}</ul>
        </section>`
      )}
      ${found === 0 && html`<p class="hint">Nothing has all these words.</p>`}
    </div>
  </nav>`
}

function Entry({ operation }: { readonly operation: Operation }) {
  const { operationId, method, path, summary } = operation
  const isHere = opened.value === operationId
  return html`<a href=${`#/${operationId}`} class=${classes('entry', isHere && 'here')} aria-current=${isHere ? 'page' : undefined} title=${summary}>
    <${Method} name=${method} /><span>${path}</span>
  </a>`
}

function Method({ name }: { readonly name: string }) {
  return html`<b class=${`method ${name.toLowerCase()}`}>${name}</b>`
}

// ----------------------------------------------------------------------------------------------- reference

interface ReferenceProps {
  readonly api: ApiDocument
  readonly operation: Operation
}

function Reference({ api, operation }: ReferenceProps) {
  const { method, path, summary, parameters = [], requestBody, responses, security } = operation
  const bodySchema = requestBody?.content['application/json']?.schema
  const [filled, setFilled] = useState<Filled>(() => ({
    values: {},
    body: bodySchema ? JSON.stringify(exampleOf(api, bodySchema), null, 2) : ''
  }))
  useEffect(() => {
    document.title = `${method} ${path}`
  }, [method, path])
  const scope = operation['x-scope']
  return html`<article>
    <h1><${Method} name=${method} /> <code>${path}</code></h1>
    <p class="lead">${summary}</p>
    <p class="hint">${who(security.length > 0, scope)}</p>
    ${
      parameters.length > 0 &&
      html`<h2>Parameters</h2>
      <div class="wide-table" tabindex="0" role="region" aria-label="Parameters"><table>
        <thead><tr><th>Name</th><th>In</th><th>Type</th><th>What</th></tr></thead>
        <tbody>${parameters.map(
          ({ name, in: where, schema, description }) =>
            html`<tr key=${where + name}><td><code>${name}</code></td><td>${where}</td><td>${typeOf(schema)}${schema.default !== undefined && html`, default <code>${JSON.stringify(schema.default)}</code>`}</td><td>${description}</td></tr>`
        )}</tbody>
      </table></div>`
    }
    ${requestBody && html`<h2>Body</h2>${Object.entries(requestBody.content).map(([type, { schema }]) => html`<p class="hint"><code>${type}</code>${!requestBody.required && ', may be left out'}</p>${schema && html`<${Shape} api=${api} schema=${schema} isOpen />`}`)}`}
    <h2>Try it</h2>
    <${Try} operation=${operation} filled=${filled} onChange=${setFilled} />
    <h2>As a call</h2>
    <${Calls} operation=${operation} filled=${filled} />
    <h2>Answers</h2>
    ${Object.entries(responses).map(([status, response]) => html`<${Answer} key=${status} api=${api} status=${status} response=${responseOf(api, response)} />`)}
  </article>`
}

function who(isGuarded: boolean, scope: string | undefined): string {
  if (!isGuarded) return 'For everybody, signed in or not.'
  if (scope === undefined) return 'For a session; API tokens are not accepted.'
  return scope === 'any'
    ? 'For a session, or any API token.'
    : `For a session, or an API token with the scope ${scope}.`
}

function Calls({ operation, filled }: { readonly operation: Operation; readonly filled: Filled }) {
  const [form, setForm] = useState<'curl' | 'TypeScript'>('curl')
  const text = (form === 'curl' ? curlOf : typescriptOf)(operation, filled, location.origin + BASE)
  return html`<div class="calls">
    <div class="tabs" role="group" aria-label="Language">
      ${(['curl', 'TypeScript'] as const).map((one) => html`<button class=${classes('tab', one === form && 'on')} aria-pressed=${one === form} onClick=${() => setForm(one)}>${one}</button>`)}
      <${Copy} text=${text} />
    </div>
    <pre class="call" tabindex="0"><code>${text}</code></pre>
  </div>`
}

function Copy({ text }: { readonly text: string }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => setCopied(false), [text])
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true))
  return html`<button class="tab end" onClick=${copy}>${isCopied ? 'Copied' : 'Copy'}</button>`
}

interface AnswerProps {
  readonly api: ApiDocument
  readonly status: string
  readonly response: Response
}

function Answer({ api, status, response: { description, content = {}, headers = {} } }: AnswerProps) {
  const isGood = status.startsWith('2')
  return html`<details class="answer" open=${isGood}>
    <summary><b class=${isGood ? 'good' : ''}>${status}</b> ${description}</summary>
    ${Object.entries(headers).map(([name, { description }]) => html`<p class="hint"><code>${name}</code>: ${description}</p>`)}
    ${Object.entries(content).map(
      ([type, { schema }]) => html`<p class="hint"><code>${type}</code></p>
        ${type === 'text/event-stream' ? html`<p><a href="#/events">Events of a stream</a></p>` : schema && html`<${Shape} api=${api} schema=${schema} isOpen=${isGood} />`}`
    )}
  </details>`
}

// -------------------------------------------------------------------------------------------------- schemas

interface ShapeProps {
  readonly api: ApiDocument
  readonly schema: Schema
  readonly isOpen?: boolean
  readonly depth?: number
}
const SHAPE_DEPTH = 5

/** The members of a value, unfolded on demand. */
function Shape({ api, schema, isOpen = false, depth = 0 }: ShapeProps): ComponentChildren {
  const parts = partsOf(api, schema)
  if (parts.length === 0 || depth > SHAPE_DEPTH) return html`<p class="type">${typeOf(schema)}</p>`
  return html`<details class="shape" open=${isOpen}>
    <summary>${typeOf(schema)}</summary>
    ${parts.map(
      (part) =>
        html`<dl>${Object.entries(part.properties ?? {}).map(([name, one]) => html`<${Member} api=${api} name=${name} schema=${one} isRequired=${part.required?.includes(name) ?? false} depth=${depth + 1} />`)}</dl>`
    )}
  </details>`
}

/** The objects within a schema: itself, references, items, alternatives. */
function partsOf(api: ApiDocument, given: Schema): Schema[] {
  const schema = resolved(api, given)
  if (schema.properties && Object.keys(schema.properties).length > 0) return [schema]
  const several = schema.anyOf ?? schema.oneOf ?? schema.prefixItems
  if (several) return several.flatMap((one) => partsOf(api, one))
  if (schema.items) return partsOf(api, schema.items)
  return typeof schema.additionalProperties === 'object' ? partsOf(api, schema.additionalProperties) : []
}

interface MemberProps extends ShapeProps {
  readonly name: string
  readonly isRequired: boolean
}

function Member({ api, name, schema, isRequired, depth }: MemberProps) {
  const hasParts = partsOf(api, schema).length > 0
  return html`<div>
    <dt><code>${name}</code>${isRequired && html` <small>always</small>`}</dt>
    <dd>${hasParts ? html`<${Shape} api=${api} schema=${schema} depth=${depth} />` : html`<span class="type">${typeOf(schema)}</span>`}${schema.description && html` <span class="hint">${schema.description}</span>`}</dd>
  </div>`
}

// --------------------------------------------------------------------------------------------- other pages

function Start({ api }: { readonly api: ApiDocument }) {
  const { title, version, description } = api.info
  return html`<article>
    <h1>${title} <small>${version}</small></h1>
    <p class="lead">${description}</p>
    <p>${operations.value.length} operations, each with its parameters, what it takes and every answer; whatever stands here can be tried with your session. <a href=${`${BASE}/openapi.json`}>openapi.json</a> is the same for programs, <a href=${`${BASE}/colloquy.js`}>colloquy.js</a> the client for browsers.</p>
    <h2>The first minutes</h2>
    <ol class="steps">${[
      'post_auth_tokens',
      'post_threads',
      'post_threads_thread_id_runs_stream',
      'get_threads_thread_id_runs_run_id_stream',
      'get_threads_thread_id_state'
    ]
      .flatMap((id) => operations.value.filter(({ operationId }) => operationId === id))
      .map((one) => html`<li><${Entry} operation=${one} /> ${one.summary}</li>`)}</ol>
    <h2>Streams</h2>
    <p>A run outlives whoever watches it: its frames have ids, and a reader that comes back with the last one goes on behind it. <a href="#/events">Events of a stream</a></p>
  </article>`
}

function Events({ api }: { readonly api: ApiDocument }) {
  const events = Object.entries(api.components.schemas).filter(([name]) => name.startsWith('Event_'))
  return html`<article>
    <h1>Events of a stream</h1>
    <p class="lead">Server-sent events: a name, a line of JSON, and an id with which a reader goes on.</p>
    ${events.map(([name, schema]) => html`<${StreamEvent} key=${name} api=${api} schema=${schema} />`)}
  </article>`
}

function StreamEvent({ api, schema }: { readonly api: ApiDocument; readonly schema: Schema }) {
  const data = schema.properties?.data?.contentSchema
  const [example] = schema.examples ?? []
  // Examples of events are written by the server from its own table.
  const { event, data: line, id } = example as { event: string; data: string; id?: string }
  return html`<section class="event">
    <h2><code>${event}</code></h2>
    <p>${schema.description}</p>
    <pre class="call" tabindex="0"><code>${`event: ${event}\ndata: ${line}${id ? `\nid: ${id}` : ''}`}</code></pre>
    ${data && html`<${Shape} api=${api} schema=${data} />`}
  </section>`
}

const root = document.getElementById('app')!
// What the page says by itself until its modules are here.
root.replaceChildren()
render(html`<${Page} />`, root)
void load()
