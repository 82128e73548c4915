// Entry point of the page.
import { render } from 'preact'
import { spoken } from './announce.ts'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { providerProblem, Providers } from './providers.ts'
import { Shell } from './shell.ts'
import {
  begin,
  endedFor,
  stage,
  canRegister,
  hasPasswords,
  hasEnded,
  invitation,
  needsInvitation,
  passwordToken,
  PASSWORD_RULES,
  setPassword,
  signIn,
  signUp,
  wantsSession
} from './session.ts'
import { Toasts } from './toast.ts'
import { useEffect, useState } from 'preact/hooks'
import { link, textOf } from './api.ts'
import { Later } from './later.ts'

function Page() {
  return html`<${View} />
    <${Toasts} />
    <div class="spoken" aria-live="polite" role="log">${spoken.value}</div>`
}

const shared = () => import('./shared.ts')

function View() {
  if (link !== null && !wantsSession.value) return html`<${Later} load=${shared} props=${{}} />`
  switch (stage.value) {
    case 'loading':
      // What the page says by itself until its modules are here.
      return html`<p class="first">Colloquy</p>`
    case 'unreachable':
      return html`<${Unreachable} />`
    case 'setup':
    case 'out':
      return html`<${SignIn} />`
    case 'in':
      return html`<${Shell} />`
  }
}

// Only where the page is a secure one; without it the page is as it is.
if ('serviceWorker' in navigator)
  addEventListener('load', () => void navigator.serviceWorker.register(`${BASE}/sw.js`).catch(() => {}))

render(html`<${Page} />`, document.getElementById('app')!)
if (link === null) void begin()

const AGAIN_MS = 3000

/** The page is there, its server is not: it comes back by itself. */
function Unreachable() {
  useEffect(() => {
    const timer = setInterval(() => void begin(), AGAIN_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<main class="door"><div class="card"><h1>The server does not answer</h1><p class="lead">${navigator.onLine ? 'It may be starting.' : 'You are offline.'} This page goes on as soon as it is back, with what you have written.</p><button class="primary wide" onClick=${() => void begin()}>Try now</button></div></main>`
}

// --------------------------------------------------------------------------------------------------------- signing in

type Form = 'setup' | 'sign-in' | 'sign-up' | 'password'

const WORDS: Readonly<Record<Form, { title: string; lead: string; button: string }>> = {
  setup: {
    title: 'Welcome to Colloquy',
    lead: 'Nobody has used this installation yet. The account you make now is its administrator.',
    button: 'Create the administrator'
  },
  'sign-in': { title: 'Welcome back', lead: 'Sign in to go on with your conversations.', button: 'Sign in' },
  password: { title: 'Choose a password', lead: 'This link is good once.', button: 'Set the password' },
  'sign-up': { title: 'Create an account', lead: 'Your conversations are yours alone.', button: 'Create account' }
}

function SignIn() {
  const [chosen, choose] = useState<Form>(passwordToken ? 'password' : invitation ? 'sign-up' : 'sign-in')
  const [problem, setProblem] = useState<string | null>(providerProblem)
  const [isBusy, setBusy] = useState(false)
  const [isShown, setShown] = useState(false)
  const form: Form = stage.value === 'setup' ? 'setup' : chosen
  const { title, lead, button } = WORDS[form]
  const isNew = form !== 'sign-in'

  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const [email, password] = [String(data.get('email')).trim(), String(data.get('password'))]
    setBusy(true)
    setProblem(null)
    try {
      if (form === 'password') await setPassword(email, password)
      else if (isNew) await signUp(email, password, form === 'setup', String(data.get('invitation') ?? '').trim())
      else await signIn(email, password)
    } catch (error) {
      setProblem(textOf(error))
      setBusy(false)
    }
  }

  const ways = form === 'sign-in' && html`<${Providers} isOnly=${!hasPasswords.value} />`
  if (!hasPasswords.value && form === 'sign-in')
    return html`<main class="door"><div class="card"><h1>${title}</h1><p class="lead">${lead}</p>${problem && html`<p class="problem" role="alert">${problem}</p>`}${ways}</div></main>`

  const other = form === 'sign-in' ? 'sign-up' : 'sign-in'
  // Whose session has ended in this tab.
  const known = form === 'sign-in' ? endedFor.value : ''
  return html`<main class="door">
    <form class="card" onSubmit=${submit}>
      <img class="mark" src=${new URL('icon.svg', import.meta.url).href} alt="" width="44" height="44" />
      <h1>${title}</h1>
      <p class="lead">${hasEnded.value && form === 'sign-in' ? 'Your session has ended. Sign in, and you are back where you were.' : lead}</p>
      <label>E-mail<input name="email" type="email" required autocomplete="username" autofocus=${known === ''} defaultValue=${known} placeholder="you@example.com" /></label>
      <label>
        Password
        <input
          name="password"
          type=${isShown ? 'text' : 'password'}
          required
          autofocus=${known !== ''}
          minlength=${isNew ? 8 : undefined}
          autocomplete=${isNew ? 'new-password' : 'current-password'}
          aria-describedby=${isNew ? 'rules' : undefined}
        />
      </label>
      <button type="button" class="link" aria-pressed=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? 'Hide what is typed' : 'Show what is typed'}</button>
      ${form === 'sign-up' && needsInvitation.value && html`<label>Invitation<input name="invitation" required autocomplete="off" defaultValue=${invitation} placeholder="clq_…" /></label>`}
      ${isNew && html`<p class="hint" id="rules">${PASSWORD_RULES}</p>`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${problem && form === 'sign-in' && html`<p class="hint">Forgotten your password? An administrator can send you a link to set a new one.</p>`}
      <button class="primary wide" disabled=${isBusy}>${button}</button>
      ${ways}
      ${
        form !== 'setup' &&
        form !== 'password' &&
        (canRegister.value || form === 'sign-up') &&
        html`<p class="hint other">
          ${form === 'sign-in' ? 'No account yet? ' : 'You have an account? '}
          <button type="button" class="link" onClick=${() => {
            setProblem(null)
            choose(other)
          }}>${form === 'sign-in' ? 'Create one' : 'Sign in'}</button>
        </p>`
      }
    </form>
  </main>`
}
