// Parts of the account's dialog: where its user is signed in, conversations as files, and the end of the account.
import { useEffect, useState } from 'preact/hooks'
import { call, textOf } from './api.ts'
import { BASE } from './base.ts'
import { html, Icon } from './html.ts'
import { go, threadLink } from './router.ts'
import { keepFor } from './tab-storage.ts'
import { ago } from './time.ts'
import { notify, notifyFailure } from './toast.ts'
import { t } from './words.ts'

interface Session {
  readonly session_id: string
  readonly last_used_at: string
  readonly device: string | null
  readonly address: string | null
  readonly is_current: boolean
}

interface SureProps {
  readonly name: string
  /** What it does, when it asks. */
  readonly label: string
  readonly onSure: () => void
  /** It is pressed by its name, behind this icon; none: by an icon. */
  readonly icon?: string
}

/** A button that asks once more before it acts. */
export function Sure({ name, label, onSure, icon }: SureProps) {
  const [isAsked, setAsked] = useState(false)
  const ask = () => setAsked(true)
  const act = () => {
    setAsked(false)
    onSure()
  }
  if (isAsked)
    return html`<button class="danger" aria-label=${t('{}, really', name)} onClick=${act} onBlur=${() => setAsked(false)}>${label}?</button>`
  return icon
    ? html`<button class="plain" onClick=${ask}><${Icon} name=${icon} /> ${name}</button>`
    : html`<button class="quiet" aria-label=${name} onClick=${ask}><${Icon} name="bin" /></button>`
}

export function Sessions() {
  const [sessions, setSessions] = useState<readonly Session[]>([])
  const load = () =>
    call<{ sessions: Session[] }>('GET', '/api/v1/auth/sessions').then(
      ({ sessions }) => setSessions(sessions),
      notifyFailure
    )
  useEffect(() => void load(), [])
  const end = (id: string) => call('DELETE', `/api/v1/auth/sessions/${id}`).then(load, notifyFailure)
  return html`<section>
    <h3>Where you are signed in</h3>
    <ul class="tokens">
      ${sessions.map(
        ({ session_id, device, address, last_used_at, is_current }) => html`<li key=${session_id}>
          <div><b>${deviceOf(device)}</b><small>${[address, is_current ? t('this one') : t('used {}', ago(last_used_at))].filter(Boolean).join(' · ')}</small></div>
          ${!is_current && html`<${Sure} name=${t('End the session of {}', deviceOf(device))} label="End it" onSure=${() => void end(session_id)} />`}
        </li>`
      )}
    </ul>
  </section>`
}

/** Browser and system in a header that has both in many words. */
function deviceOf(userAgent: string | null): string {
  const text = userAgent ?? ''
  const browser = /(Firefox|Edg|OPR|Chrome|Safari)\//.exec(text)?.[1]
  const system = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(text)?.[1]
  const names: Readonly<Record<string, string>> = { Edg: 'Edge', OPR: 'Opera', 'Mac OS X': 'macOS' }
  const shown = [browser, system].filter((one) => one !== undefined).map((one) => names[one] ?? one)
  return shown.length > 0 ? shown.join(', ') : text.slice(0, 40) || t('Unknown device')
}

export function Files() {
  const read = async (event: Event) => {
    const input = event.currentTarget as HTMLInputElement
    try {
      const { importFiles } = await import('./transfer.ts')
      const ids = await importFiles(input.files ?? [])
      notify(ids.length === 1 ? t('1 conversation is here.') : t('{} conversations are here.', ids.length))
      if (ids[0]) go(threadLink(ids[0]))
    } catch (error) {
      notify(error instanceof Error && error.name === 'Error' ? error.message : textOf(error), true)
    } finally {
      input.value = ''
    }
  }
  return html`<section>
    <h3>Conversations as files</h3>
    <label>Import what this page has exported as JSON<input type="file" accept=".json,application/json" multiple onChange=${read} /></label>
    <p><a class="plain button" href=${`${BASE}/api/v1/auth/export`} download><${Icon} name="save" /> Everything that is kept of you</a></p>
    <p class="hint">Each conversation is exported from its menu in the list.</p>
  </section>`
}

export function EndOfAccount() {
  const [problem, setProblem] = useState<string | null>(null)
  const [isAsked, setAsked] = useState(false)
  const remove = async (event: SubmitEvent) => {
    event.preventDefault()
    const current_password = String(new FormData(event.currentTarget as HTMLFormElement).get('confirm'))
    try {
      await call('DELETE', '/api/v1/auth/me', { current_password })
      keepFor('')
      location.hash = ''
      location.reload()
    } catch (error) {
      setProblem(textOf(error))
    }
  }
  return html`<section>
    <h3>End of the account</h3>
    ${
      isAsked
        ? html`<form class="row" onSubmit=${remove}>
            <label>Your password<input name="confirm" type="password" required autocomplete="current-password" /></label>
            <button class="danger">Delete everything</button>
          </form>`
        : html`<button class="plain" onClick=${() => setAsked(true)}><${Icon} name="bin" /> Delete this account</button>`
    }
    <p class="hint">All conversations, files and what is remembered of you go with it, for good.</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </section>`
}
