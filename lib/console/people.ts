// People, for administrators: their roles, quotas and legal holds, and how old the last backup is. What cannot be undone is asked for in words.
import { useState } from 'preact/hooks'
import { useAnswer } from './answer.ts'
import { call, textOf } from './api.ts'
import { Dialog } from './dialog.ts'
import { classes, html, Icon } from './html.ts'
import { count } from './time.ts'
import { notify, notifyFailure } from './toast.ts'

const USERS = '/api/v1/admin/users'
const HOLDS = '/api/v1/admin/holds'

interface ListedUser {
  readonly id: string
  readonly email: string
  readonly system_role: string
  readonly disabled_at: string | null
  readonly last_seen_at: string | null
}

interface Hold {
  readonly hold_id: string
  readonly user_id: string | null
  readonly thread_id: string | null
  readonly reason: string
  readonly created_at: string
}

/** What is done to an account in a dialog. */
type Task = 'quota' | 'hold' | 'erase'

/** The accounts, oldest first, as far as a page of them goes. */
export function useUsers() {
  return useAnswer<{ users: ListedUser[]; total: number }>(USERS)
}

export function People({ answer, problem, reload }: ReturnType<typeof useUsers>) {
  const held = useAnswer<{ holds: Hold[]; has_more: boolean }>(`${HOLDS}?limit=1000`)
  const [link, setLink] = useState<string | null>(null)
  const [task, setTask] = useState<{ of: Task; user: ListedUser } | null>(null)
  const holds = held.answer?.holds ?? []
  const change = (user: ListedUser, set: object) =>
    call('PATCH', `${USERS}/${user.id}`, set).then(reload, notifyFailure)
  const reset = (user: ListedUser) =>
    call<{ url: string }>('POST', `${USERS}/${user.id}/password-link`).then(({ url }) => setLink(url), notifyFailure)
  const remove = (user: ListedUser) =>
    confirm(`Delete ${user.email}, with everything that belongs to it?`) &&
    call('DELETE', `${USERS}/${user.id}`).then(reload, notifyFailure)
  const close = () => setTask(null)
  const done = () => {
    close()
    reload()
    held.reload()
  }
  return html`<h2>People</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${link && html`<div class="secret" role="status"><code>${link}</code><p class="hint">Send this address to its person: it sets a password, once within a day.</p></div>`}
    <ul class="cards">
      ${answer?.users.map(
        (user) => html`<li key=${user.id}>
          <div class="row"><b>${user.email}</b><span class=${classes('badge', user.disabled_at && 'bad')}>${user.disabled_at ? 'disabled' : user.system_role}</span></div>
          <small>${user.last_seen_at ? `seen ${new Date(user.last_seen_at).toLocaleString()}` : 'not signed in'}${holds.some(({ user_id }) => user_id === user.id) ? ', under a legal hold' : ''}</small>
          <div class="row tasks">
            ${
              user.system_role !== 'service' &&
              html`<select aria-label=${`Role of ${user.email}`} value=${user.system_role} onChange=${(event: Event) => change(user, { system_role: (event.currentTarget as HTMLSelectElement).value })}>
                ${['user', 'auditor', 'admin'].map((role) => html`<option value=${role}>${role}</option>`)}
              </select>
              <button class="plain" onClick=${() => reset(user)}>Password link</button>`
            }
            <button class="plain" onClick=${() => change(user, { disabled: user.disabled_at === null })}>${user.disabled_at ? 'Enable' : 'Disable'}</button>
            ${TASKS.map(
              ([of, name]) =>
                html`<button class="plain" aria-label=${`${name} of ${user.email}`} onClick=${() => setTask({ of, user })}>${name}</button>`
            )}
            <button class="quiet" aria-label=${`Delete ${user.email}`} onClick=${() => remove(user)}><${Icon} name="bin" /></button>
          </div>
        </li>`
      )}
    </ul>
    ${answer && answer.total > answer.users.length && html`<p class="hint">${count(answer.total)} in all: colloquy user list has them.</p>`}
    <${Holds} holds=${holds} users=${answer?.users ?? []} problem=${held.problem} reload=${held.reload} />
    ${task?.of === 'quota' && html`<${QuotaDialog} user=${task.user} onClose=${close} onDone=${done} />`}
    ${task?.of === 'hold' && html`<${HoldDialog} user=${task.user} onClose=${close} onDone=${done} />`}
    ${task?.of === 'erase' && html`<${EraseDialog} user=${task.user} onClose=${close} onDone=${done} />`}`
}

const TASKS: readonly (readonly [Task, string])[] = [
  ['quota', 'Quota'],
  ['hold', 'Hold'],
  ['erase', 'Erase']
]

interface TaskProps {
  readonly user: ListedUser
  readonly onClose: () => void
  readonly onDone: () => void
}

/** Sends a form; what goes wrong stands below it. */
function useForm(send: (form: FormData) => Promise<unknown>, onDone: () => void) {
  const [problem, setProblem] = useState<string | null>(null)
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault()
    send(new FormData(event.currentTarget as HTMLFormElement)).then(onDone, (error) => setProblem(textOf(error)))
  }
  return { onSubmit, problem: problem && html`<p class="problem" role="alert">${problem}</p>` }
}

/** The names of the API, and what they are called here. */
const LIMITS = [
  ['runs_per_day', 'Runs a day'],
  ['tokens_per_day', 'Tokens a day'],
  ['money_per_month', 'Money a month'],
  ['bytes', 'Bytes'],
  ['runs_at_once', 'Runs at once'],
  ['requests_per_second', 'Requests a second']
] as const
type Quota = { readonly [Name in (typeof LIMITS)[number][0]]?: number | null }

function QuotaDialog({ user, onClose, onDone }: TaskProps) {
  const path = `${USERS}/${user.id}`
  const { answer, problem } = useAnswer<{ quota: Quota | null }>(path)
  const { onSubmit, problem: refusal } = useForm((form) => {
    const given = LIMITS.map(([name]) => [name, String(form.get(name) ?? '').trim()] as const)
    const quota = Object.fromEntries(given.flatMap(([name, text]) => (text === '' ? [] : [[name, Number(text)]])))
    return call('PATCH', path, { quota: Object.keys(quota).length > 0 ? quota : null })
  }, onDone)
  return html`<${Dialog} title=${`Quota of ${user.email}`} onClose=${onClose}>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${
      answer &&
      html`<form onSubmit=${onSubmit}>
        ${LIMITS.map(
          ([name, label]) =>
            html`<label key=${name}>${label}<input name=${name} type="number" min="0" step=${name === 'money_per_month' ? 'any' : '1'} value=${answer.quota?.[name] ?? ''} placeholder="as for everybody" /></label>`
        )}
        <p class="hint">Empty: what its groups and everybody have. 0: no limit.</p>
        <button class="plain">Save</button>
      </form>`
    }
    ${refusal}
  <//>`
}

function HoldDialog({ user, onClose, onDone }: TaskProps) {
  const { onSubmit, problem } = useForm(
    (form) => call('POST', HOLDS, { user_id: user.id, reason: String(form.get('reason')) }),
    onDone
  )
  return html`<${Dialog} title=${`Hold ${user.email}`} onClose=${onClose}>
    <p>Nothing of this account is deleted, by anybody or by age, until the hold is lifted.</p>
    <form onSubmit=${onSubmit}>
      <label>Why<input name="reason" required maxlength="1000" /></label>
      <button class="plain">Hold</button>
    </form>
    ${problem}
  <//>`
}

function EraseDialog({ user, onClose, onDone }: TaskProps) {
  const [typed, setTyped] = useState('')
  const { onSubmit, problem } = useForm(
    () => call('POST', `${USERS}/${user.id}/erase`),
    () => {
      notify(`${user.email} is being erased: the audit says when it is done.`)
      onDone()
    }
  )
  return html`<${Dialog} title=${`Erase ${user.email}`} onClose=${onClose}>
    <p>The account and everything that belongs to it is deleted until no byte is left. It cannot be undone.</p>
    <form onSubmit=${onSubmit}>
      <label>Type its address<input autocomplete="off" value=${typed} onInput=${(event: Event) => setTyped((event.currentTarget as HTMLInputElement).value)} /></label>
      <button class="danger" disabled=${typed.trim() !== user.email}>Erase</button>
    </form>
    ${problem}
  <//>`
}

interface HoldsProps {
  readonly holds: readonly Hold[]
  readonly users: readonly ListedUser[]
  readonly problem: string | null
  readonly reload: () => void
}

function Holds({ holds, users, problem, reload }: HoldsProps) {
  const add = useForm(
    (form) => call('POST', HOLDS, { thread_id: String(form.get('thread')), reason: String(form.get('reason')) }),
    reload
  )
  const nameOf = ({ user_id, thread_id }: Hold) =>
    users.find(({ id }) => id === user_id)?.email ?? user_id ?? `Conversation ${thread_id}`
  const lift = (hold: Hold) =>
    confirm(`Lift the hold of ${nameOf(hold)}? What was due meanwhile is deleted.`) &&
    call('DELETE', `${HOLDS}/${hold.hold_id}`).then(reload, notifyFailure)
  return html`<h2>Legal holds</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    <form class="row narrow" onSubmit=${add.onSubmit}>
      <label>Id of a conversation<input name="thread" required /></label>
      <label>Why<input name="reason" required maxlength="1000" /></label>
      <button class="plain">Hold</button>
    </form>
    ${add.problem}
    <ul class="cards">
      ${holds.map(
        (hold) => html`<li key=${hold.hold_id}>
          <div class="row"><b>${nameOf(hold)}</b><button class="plain" aria-label=${`Lift the hold of ${nameOf(hold)}`} onClick=${() => lift(hold)}>Lift</button></div>
          <small>${hold.reason}, since ${new Date(hold.created_at).toLocaleDateString()}</small>
        </li>`
      )}
    </ul>`
}
