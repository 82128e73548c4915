// The door's other ways in: providers at which people of a company sign in.
import { useEffect, useState } from 'preact/hooks'
import { colloquy } from './api.ts'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { t } from './words.ts'

interface Provider {
  readonly id: string
  readonly display_name: string
}

const PROBLEMS: Readonly<Record<string, string>> = {
  sso_cancelled: t('The sign-in was cancelled.'),
  sso_not_allowed: t('This account may not sign in here. Ask your administrator.'),
  sso_account_exists: t(
    'There is an account with this address already. Sign in with its password, or ask your administrator.'
  )
}

/** Why the last sign-in at a provider failed, as the page's URL says; null: it did not. */
export function providerProblem(): string | null {
  const code = new URLSearchParams(location.search).get('error')
  if (code === null) return null
  return PROBLEMS[code] ?? t('The sign-in at the provider has failed. Try again.')
}

/** One link each; nothing where there are none. */
export function Providers({ isOnly }: { isOnly: boolean }) {
  const [providers, setProviders] = useState<readonly Provider[]>([])
  useEffect(() => {
    colloquy
      .call<{ providers: readonly Provider[] }>('GET', '/api/v1/auth/providers')
      .then(({ providers: listed }) => setProviders(listed))
      .catch(() => {})
  }, [])
  const next = encodeURIComponent(location.pathname + location.hash)
  return providers.map(
    ({ id, display_name }) => html`<a
      class=${isOnly ? 'primary wide button' : 'wide button'}
      href=${`${BASE}/api/v1/auth/oauth/${encodeURIComponent(id)}?next=${next}`}
    >Continue with ${display_name}</a>`
  )
}
