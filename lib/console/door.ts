// The door: signing in, a new account, a new password.
import { useState } from 'preact/hooks'
import { textOf } from './api.ts'
import { html } from './html.ts'
import { providerProblem, Providers } from './providers.ts'
import {
  canRegister,
  endedFor,
  forgot,
  hasEnded,
  hasMail,
  hasPasswords,
  invitation,
  needsInvitation,
  PASSWORD_RULES,
  passwordToken,
  setPassword,
  signIn,
  signUp,
  stage
} from './session.ts'
import { t } from './words.ts'

type Form = 'setup' | 'sign-in' | 'sign-up' | 'password'

const WORDS: Readonly<Record<Form, { title: string; lead: string; button: string }>> = {
  setup: {
    title: t('Welcome to Colloquy'),
    lead: t('Nobody has used this installation yet. The account you make now is its administrator.'),
    button: t('Create the administrator')
  },
  'sign-in': { title: t('Welcome back'), lead: t('Sign in to go on with your conversations.'), button: t('Sign in') },
  password: { title: t('Choose a password'), lead: t('This link is good once.'), button: t('Set the password') },
  'sign-up': {
    title: t('Create an account'),
    lead: t('Your conversations are yours alone.'),
    button: t('Create account')
  }
}

export function View() {
  const [chosen, choose] = useState<Form>(passwordToken ? 'password' : invitation ? 'sign-up' : 'sign-in')
  const [problem, setProblem] = useState<string | null>(providerProblem)
  const [isBusy, setBusy] = useState(false)
  const [isMailed, setMailed] = useState(false)
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

  /** Mails a link to the address that stands in the form. */
  const sendLink = async (event: MouseEvent) => {
    const field = (event.currentTarget as HTMLButtonElement).form!.elements.namedItem('email') as HTMLInputElement
    if (!field.reportValidity()) return
    setProblem(null)
    try {
      await forgot(field.value.trim())
      setMailed(true)
    } catch (error) {
      setProblem(textOf(error))
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
      <p class="lead">${hasEnded.value && form === 'sign-in' ? t('Your session has ended. Sign in, and you are back where you were.') : lead}</p>
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
      <button type="button" class="link" aria-pressed=${isShown} onClick=${() => setShown(!isShown)}>${isShown ? t('Hide what is typed') : t('Show what is typed')}</button>
      ${form === 'sign-up' && needsInvitation.value && html`<label>Invitation<input name="invitation" required autocomplete="off" defaultValue=${invitation} placeholder="clq_…" /></label>`}
      ${isNew && html`<p class="hint" id="rules">${t(PASSWORD_RULES)}</p>`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${form === 'sign-in' && hasMail.value && html`<p class="hint" role="status">${isMailed ? t('If there is such an account, a mail with a link is on its way.') : html`<button type="button" class="link" onClick=${sendLink}>Forgot your password?</button>`}</p>`}
      ${problem && form === 'sign-in' && !hasMail.value && html`<p class="hint">Forgotten your password? An administrator can send you a link to set a new one.</p>`}
      <button class="primary wide" disabled=${isBusy}>${button}</button>
      ${ways}
      ${
        form !== 'setup' &&
        form !== 'password' &&
        (canRegister.value || form === 'sign-up') &&
        html`<p class="hint other">
          ${form === 'sign-in' ? `${t('No account yet?')} ` : `${t('You have an account?')} `}
          <button type="button" class="link" onClick=${() => {
            setProblem(null)
            choose(other)
          }}>${form === 'sign-in' ? t('Create one') : t('Sign in')}</button>
        </p>`
      }
    </form>
  </main>`
}
