// The user's account: password, sessions and API tokens.
import { useEffect, useState } from 'preact/hooks'
import { call, textOf } from './api.ts'
import { Dialog } from './dialog.ts'
import { html, Icon } from './html.ts'
import { keepsThreads, setKeepsThreads } from './kept-threads.ts'
import { copyText } from './clipboard.ts'
import { changePassword, endOthers, me, PASSWORD_RULES, signOut } from './session.ts'
import { EndOfAccount, Files, Sessions, Sure } from './own-account.ts'
import { Removals } from './removals.ts'
import { setTheme, type Theme, theme } from './theme.ts'
import { ago } from './time.ts'
import { notify, notifyFailure } from './toast.ts'
import { canNotify, notifies, setNotifies } from './waiting.ts'
import { LANGUAGES, language, setLanguage, t } from './words.ts'

interface Token {
  readonly token_id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly created_at: string
  readonly expires_at: string | null
  readonly last_used_at: string | null
}

const SCOPES: Readonly<Record<string, string>> = {
  'threads:read': t('read conversations, files and settings'),
  'threads:write': t('create and change conversations, upload files'),
  'threads:delete': t('delete conversations and files'),
  'runs:create': t('start runs'),
  'runs:read': t('watch runs and read their events'),
  'runs:cancel': t('stop runs'),
  'store:read': t('read stored items'),
  'store:write': t('change stored items')
}

export function View({ onClose }: { readonly onClose: () => void }) {
  return html`<${Dialog} title="Account" onClose=${onClose} isWide>
    <p class="lead">Signed in as <b>${me.value?.email}</b>${me.value?.system_role === 'admin' ? `, ${t('administrator')}` : ''}.</p>
    <${Appearance} />
    <${Password} />
    ${canNotify() && html`<${Notifications} />`}
    <${OnDevice} />
    <${Memory} />
    <${Sessions} />
    <${Tokens} />
    <${Files} />
    <${EndOfAccount} />
    <footer><button class="plain" onClick=${() => void signOut()}><${Icon} name="out" /> Sign out</button></footer>
  <//>`
}

function Password() {
  const [problem, setProblem] = useState<string | null>(null)
  const needsSetup = me.value?.needs_setup ?? false
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const data = new FormData(form)
    try {
      const email = needsSetup ? String(data.get('email')) : null
      await changePassword(String(data.get('current')), String(data.get('next')), email)
      form.reset()
      setProblem(null)
      notify('The password is changed. All other sessions have ended.')
    } catch (error) {
      setProblem(textOf(error))
    }
  }
  return html`<section>
    <h3>Password</h3>
    <form class="row" onSubmit=${submit}>
      <input type="email" autocomplete="username" value=${me.value?.email} hidden readonly />
      ${needsSetup && html`<label>E-mail<input name="email" type="email" required defaultValue=${me.value?.email} /></label>`}
      <label>Current<input name="current" type="password" required autocomplete="current-password" /></label>
      <label>New<input name="next" type="password" required minlength="8" autocomplete="new-password" aria-describedby="new-rules" /></label>
      <button class="plain">Change</button>
    </form>
    <p class="hint" id="new-rules">${t(PASSWORD_RULES)} Changing it signs out every other device.</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p><${Sure} name=${t('Sign out everywhere else')} label="Sign out everywhere else" icon="out" onSure=${() => void signOutElsewhere()} /></p>
  </section>`
}

async function signOutElsewhere(): Promise<void> {
  try {
    await endOthers()
    notify('All other sessions have ended.')
  } catch (error) {
    notifyFailure(error)
  }
}

const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', t('As the system')],
  ['light', t('Light')],
  ['dark', t('Dark')]
]

function Appearance() {
  return html`<section>
    <h3>Appearance</h3>
    <div class="options" role="group" aria-label="Theme">
      ${THEMES.map(([name, label]) => html`<button key=${name} class="plain" aria-pressed=${theme.value === name} onClick=${() => setTheme(name)}>${label}</button>`)}
    </div>
    <div class="options" role="group" aria-label="Language">
      ${Object.entries(LANGUAGES).map(([name, label]) => html`<button key=${name} class="plain" lang=${name} aria-pressed=${language === name} onClick=${() => setLanguage(name)}>${label}</button>`)}
    </div>
  </section>`
}

function Notifications() {
  return html`<section>
    <h3>Notifications</h3>
    <label class="check"><input type="checkbox" checked=${notifies.value} onChange=${(event: Event) => void setNotifies((event.currentTarget as HTMLInputElement).checked)} /> Tell me when an answer is done, or asks me something, while this page is hidden</label>
  </section>`
}

function OnDevice() {
  return html`<section>
    <h3>On this device</h3>
    <label class="check"><input type="checkbox" defaultChecked=${keepsThreads()} onChange=${(event: Event) => void setKeepsThreads((event.currentTarget as HTMLInputElement).checked)} /> Keep conversations on this device, to read them without the server</label>
    <p class="hint">Those that you open from now on, until you sign out. Drafts and messages that wait to be sent are kept until then in any case.</p>
  </section>`
}

interface Fact {
  readonly id: string
  readonly content: string
}

const removals = new Removals()

/** What the agent remembers of its user. */
function Memory() {
  const [facts, setFacts] = useState<readonly Fact[] | null>(null)
  const load = () =>
    call<{ facts?: Fact[] }>('GET', '/api/memory').then(
      (memory) => setFacts(memory.facts ?? []),
      () => setFacts([])
    )
  useEffect(() => void load(), [])
  const forget = (id: string) =>
    removals.add(id, { path: `/api/memory/facts/${encodeURIComponent(id)}`, notice: 'It is forgotten.', onGone: load })
  const shown = facts?.filter(({ id }) => !removals.has(id))
  return html`<section>
    <h3>What is remembered of you</h3>
    ${shown?.length === 0 && html`<p class="hint">Nothing yet.</p>`}
    <ul class="tokens">
      ${shown?.map(({ id, content }) => html`<li key=${id}><div dir="auto">${content}</div><button class="quiet" aria-label=${t('Forget: {}', content)} onClick=${() => forget(id)}><${Icon} name="bin" /></button></li>`)}
    </ul>
  </section>`
}

function Tokens() {
  const [tokens, setTokens] = useState<readonly Token[]>([])
  const [shown, setShown] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const load = async () => setTokens((await call<{ tokens: Token[] }>('GET', '/api/v1/auth/tokens')).tokens)
  useEffect(() => {
    load().catch((error) => setProblem(textOf(error)))
  }, [])

  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const data = new FormData(form)
    const scopes = data.getAll('scope').map(String)
    const days = Number(data.get('days'))
    if (scopes.length === 0) return setProblem(t('Choose what the token may do: without a scope it may do nothing.'))
    try {
      const made = await call<{ token: string }>('POST', '/api/v1/auth/tokens', {
        name: String(data.get('name')) || t('unnamed'),
        scopes,
        expires_in_days: days > 0 ? days : null
      })
      setShown(made.token)
      setProblem(null)
      form.reset()
      await load()
    } catch (error) {
      setProblem(textOf(error))
    }
  }

  const revoke = async (id: string) => {
    await call('DELETE', `/api/v1/auth/tokens/${id}`).catch(notifyFailure)
    await load()
  }

  return html`<section>
    <h3>API tokens</h3>
    <p class="hint">For programs that act as you, within the scopes you give them.</p>
    ${
      shown &&
      html`<div class="secret" role="status">
        <code>${shown}</code>
        <button class="plain" onClick=${() => void copyText(shown).then((isCopied) => isCopied && notify('Copied'))}><${Icon} name="copy" /> Copy</button>
        <p class="hint">Keep it now: it is shown this once and stored nowhere.</p>
      </div>`
    }
    <ul class="tokens">
      ${tokens.map(
        (token) => html`<li key=${token.token_id}>
          <div><b>${token.name}</b><small>${token.scopes.join(', ') || t('no scopes')}</small></div>
          <small>${token.last_used_at ? t('used {}', ago(token.last_used_at)) : t('never used')}</small>
          <${Sure} name=${t('Revoke {}', token.name)} label="Revoke it" onSure=${() => void revoke(token.token_id)} />
        </li>`
      )}
    </ul>
    <form class="stack" onSubmit=${create}>
      <div class="row">
        <label>Name<input name="name" maxlength="100" placeholder="deploy script" /></label>
        <label>Ends in<select name="days"><option value="30">30 days</option><option value="365">a year</option><option value="0">never</option></select></label>
      </div>
      <fieldset>
        <legend>It may</legend>
        ${Object.entries(SCOPES).map(
          ([scope, words]) =>
            html`<label class="check" key=${scope}><input type="checkbox" name="scope" value=${scope} /> ${words} <code>${scope}</code></label>`
        )}
      </fieldset>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <button class="plain">Create token</button>
    </form>
  </section>`
}
