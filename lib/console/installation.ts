// The administrator's view of the installation itself: findings, backup, configuration, schema, retention, jobs that have failed for good.
import { useState } from 'preact/hooks'
import { useAnswer } from './answer.ts'
import { call, colloquy } from './api.ts'
import { classes, html } from './html.ts'
import { bytes, count } from './time.ts'
import { notifyFailure } from './toast.ts'

const ADMIN = '/api/v1/admin'
const HOUR_MS = 3_600_000

interface Finding {
  readonly check: string
  readonly is: 'good' | 'warn' | 'bad'
  readonly text: string
}

/** A route that is asked only when somebody wants it: it takes a while, or changes something. */
function useAsked<T>(method: 'GET' | 'POST', path: string) {
  const [answer, setAnswer] = useState<T | null>(null)
  const [isBusy, setBusy] = useState(false)
  const ask = async () => {
    setBusy(true)
    await call<T>(method, `${ADMIN}/${path}`).then(setAnswer, notifyFailure)
    setBusy(false)
  }
  return { answer, isBusy, ask }
}

export function Doctor() {
  // It asks models and tool servers.
  const { answer, isBusy, ask } = useAsked<{ findings: Finding[] }>('GET', 'doctor')
  return html`<div class="row"><h2>Installation</h2><button class="plain" disabled=${isBusy} onClick=${ask}>${isBusy ? 'Looking…' : 'Look for problems'}</button></div>
    <${Backup} />
    <ul class="cards">${answer?.findings.map(
      ({ check, is, text }) =>
        html`<li key=${check}><div class="row"><b>${check}</b><span class=${classes('badge', is === 'good' && 'good', is === 'bad' && 'bad')}>${is}</span></div><small>${text}</small></li>`
    )}</ul>
    <${Configuration} />
    <${Schema} />
    <${Retention} />
    <${DeadJobs} />`
}

interface Shown {
  readonly file: string | null
  readonly options: Readonly<Record<string, unknown>>
  readonly warnings: readonly string[]
}

/** What each process has made of the configuration when it was read again. */
interface Reread {
  readonly process: string
  readonly taken: readonly string[]
  readonly left: readonly string[]
  readonly problems: readonly string[]
}

function Configuration() {
  const shown = useAsked<Shown>('GET', 'config')
  const reread = useAsked<{ processes: Reread[] }>('POST', 'reload')
  const { file, options, warnings } = shown.answer ?? { file: null, options: {}, warnings: [] }
  return html`<div class="row"><h3>Configuration</h3>
      <button class="plain" disabled=${shown.isBusy} onClick=${shown.ask}>Show what counts</button>
      <button class="plain" disabled=${reread.isBusy} onClick=${reread.ask}>Read it again</button>
    </div>
    <ul class="cards">
      ${reread.answer?.processes.map(
        ({ process, taken, left, problems }) => html`<li key=${process}>
          <b>Process: ${process}</b>
          <small>${taken.length > 0 ? `taken: ${taken.join(', ')}` : 'nothing new was taken'}</small>
          ${left.length > 0 && html`<small>left for a restart: ${left.join(', ')}</small>`}
          ${problems.map((problem) => html`<small class="problem">${problem}</small>`)}
        </li>`
      )}
    </ul>
    ${shown.answer && html`<p class="hint">${file ?? 'No file: defaults, environment and flags.'}</p>`}
    ${warnings.map((warning) => html`<p class="problem">${warning}</p>`)}
    <ul class="cards">${Object.entries(options).map(
      ([name, value]) =>
        html`<li key=${name}><details><summary>${name}</summary><small>${JSON.stringify(value, null, 1)}</small></details></li>`
    )}</ul>`
}

interface Plan {
  readonly backend: string
  readonly schema: number
  readonly program: number
  readonly steps: readonly { version: number; phase: string; stop: boolean; rows: number | null }[]
  readonly processes: readonly { schema: number; count: number }[]
}

function Schema() {
  const { answer, isBusy, ask } = useAsked<Plan>('GET', 'migration')
  return html`<div class="row"><h3>Schema</h3><button class="plain" disabled=${isBusy} onClick=${ask}>Plan its change</button></div>
    ${answer && html`<p class="hint">${answer.backend}, schema ${answer.schema}; this program: ${answer.program}. ${answer.steps.length === 0 ? 'There is nothing to do.' : 'colloquy migrate does it.'}</p>`}
    <ul class="cards">
      ${answer?.processes.map(
        ({ schema, count: n }) =>
          html`<li key=${`in use by ${schema}`}><b>In use</b><small>by ${count(n)} of schema ${schema || 'unknown'}</small></li>`
      )}
      ${answer?.steps.map(
        ({ version, phase, stop, rows }) => html`<li key=${`${version} ${phase}`}>
          <b>Step ${version}, ${phase}</b>
          <small>${rows === null ? '' : `about ${count(rows)} rows; `}older versions ${stop ? 'must have stopped' : 'may go on'}</small>
        </li>`
      )}
    </ul>`
}

/** What is old enough to be deleted is counted only when somebody wants to know. */
function Retention() {
  const { answer, isBusy, ask } = useAsked<Readonly<Record<string, Old>>>('GET', 'prune')
  const rewritten = useAsked<{ readonly bytes_before: number; readonly bytes_after: number }>('POST', 'prune')
  const sizes = rewritten.answer
  const rewrite = () =>
    confirm('Rewrite the database file? Whatever writes waits until that is done.') && rewritten.ask()
  return html`<div class="row"><h3>Retention</h3>
      <button class="plain" disabled=${isBusy} onClick=${ask}>${isBusy ? 'Counting…' : 'Count what is too old'}</button>
      <button class="plain" disabled=${rewritten.isBusy} onClick=${rewrite}>${rewritten.isBusy ? 'Rewriting…' : 'Rewrite the file without what was deleted'}</button>
    </div>
    ${sizes && html`<p class="hint">The database had ${bytes(sizes.bytes_before)}, and has ${bytes(sizes.bytes_after)}.</p>`}
    <ul class="cards">${Object.entries(answer ?? {}).map(
      ([kind, { count: n, before }]) =>
        html`<li key=${kind}><b>${kind}</b><small>${before === null ? 'kept for ever' : `${count(n)} from before ${new Date(before).toLocaleString()} will be deleted`}</small></li>`
    )}</ul>`
}

interface Old {
  readonly count: number
  /** Null: they are kept for ever. */
  readonly before: string | null
}

function Backup() {
  const { answer, reload } = useAnswer<{ entries: { readonly at: string }[] }>(`${ADMIN}/audit?action=backup&limit=1`)
  const [isBusy, setBusy] = useState(false)
  const [last] = answer?.entries ?? []
  const download = async () => {
    setBusy(true)
    try {
      const made = await colloquy.send('POST', `${ADMIN}/backup`)
      const link = document.createElement('a')
      link.href = URL.createObjectURL(await made.blob())
      link.download = /filename="(.*)"/.exec(made.headers.get('content-disposition') ?? '')?.[1] ?? 'colloquy.zip'
      link.click()
      URL.revokeObjectURL(link.href)
      reload()
    } catch (error) {
      notifyFailure(error)
    }
    setBusy(false)
  }
  if (answer === null) return null
  return html`${
    last
      ? html`<p class="hint">The last backup is ${ageOf(last.at)} old.</p>`
      : html`<p class="problem">No backup has been made yet: colloquy backup FILE makes one.</p>`
  }
    <button class="plain" disabled=${isBusy} onClick=${download}>${isBusy ? 'Making it…' : 'Download a backup, without secrets'}</button>`
}

function ageOf(at: string): string {
  const hours = Math.floor((Date.now() - Date.parse(at)) / HOUR_MS)
  if (hours < 1) return 'less than an hour'
  if (hours < 48) return `${hours} ${hours === 1 ? 'hour' : 'hours'}`
  return `${Math.floor(hours / 24)} days`
}

interface Job {
  readonly kind: string
  readonly key: string
  readonly last_error: string | null
}

function DeadJobs() {
  const { answer, reload } = useAnswer<{ jobs: Job[] }>(`${ADMIN}/jobs?dead=true&limit=20`)
  if (!answer?.jobs.length) return null
  const change = (method: 'POST' | 'DELETE', { kind, key }: Job) => {
    const job = `${ADMIN}/jobs/${kind}/${encodeURIComponent(key)}`
    return call(method, method === 'POST' ? `${job}/retry` : job).then(reload, notifyFailure)
  }
  return html`<h2>Jobs that failed</h2>
    <ul class="cards">${answer.jobs.map(
      (job) => html`<li key=${`${job.kind} ${job.key}`}>
        <div class="row"><b>${job.kind}</b><button class="plain" onClick=${() => change('POST', job)}>Try again</button><button class="quiet" onClick=${() => change('DELETE', job)}>Drop</button></div>
        <small>${job.key}</small><small class="problem">${job.last_error}</small>
      </li>`
    )}</ul>`
}
