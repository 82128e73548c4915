// The installation, on the administrator's overview: what is wrong with it, its backup, what is too old, and the jobs that have failed for good.
import { useState } from 'preact/hooks'
import { useAnswer } from './answer.ts'
import { call, colloquy } from './api.ts'
import { classes, html } from './html.ts'
import { count } from './time.ts'
import { notifyFailure } from './toast.ts'

const ADMIN = '/api/v1/admin'
const HOUR_MS = 3_600_000

interface Finding {
  readonly check: string
  readonly is: 'good' | 'warn' | 'bad'
  readonly text: string
}

/** It asks models and tool servers: only when somebody wants it. */
export function Doctor() {
  const [findings, setFindings] = useState<readonly Finding[] | null>(null)
  const [isBusy, setBusy] = useState(false)
  const look = async () => {
    setBusy(true)
    await call<{ findings: Finding[] }>('GET', `${ADMIN}/doctor`).then(
      ({ findings }) => setFindings(findings),
      notifyFailure
    )
    setBusy(false)
  }
  return html`<div class="row"><h2>Installation</h2><button class="plain" disabled=${isBusy} onClick=${look}>${isBusy ? 'Looking…' : 'Look for problems'}</button></div>
    <${Backup} />
    <ul class="cards">${findings?.map(
      ({ check, is, text }) =>
        html`<li key=${check}><div class="row"><b>${check}</b><span class=${classes('badge', is === 'good' && 'good', is === 'bad' && 'bad')}>${is}</span></div><small>${text}</small></li>`
    )}</ul>
    <${Retention} />
    <${DeadJobs} />`
}

/** What is old enough to be deleted is counted only when somebody wants to know: that may take a while. */
function Retention() {
  const [old, setOld] = useState<Readonly<Record<string, Old>> | null>(null)
  const [isBusy, setBusy] = useState(false)
  const look = async () => {
    setBusy(true)
    await call<Record<string, Old>>('GET', `${ADMIN}/prune`).then(setOld, notifyFailure)
    setBusy(false)
  }
  return html`<div class="row"><h3>Retention</h3><button class="plain" disabled=${isBusy} onClick=${look}>${isBusy ? 'Counting…' : 'Count what is too old'}</button></div>
    <ul class="cards">${Object.entries(old ?? {}).map(
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
