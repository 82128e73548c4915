// A session that begins with a response: its cookies.
import type { Sessions, Tokens } from '../auth/session.ts'
import type { User } from '../base/accounts.ts'
import { csrfCookie, mayLast, SESSION_COOKIE } from '../http/entry.ts'
import type { Call, Cookie } from '../http/route.ts'

interface SessionServices {
  readonly sessions: Sessions
  readonly tokens: Tokens
}

/** Opens a session. Its cookies: the token, and the CSRF token with the same lifetime. */
export async function openSession(
  { sessions, tokens }: SessionServices,
  call: Call,
  user: User,
  remember: boolean
): Promise<{ readonly token: string; readonly cookies: readonly Cookie[] }> {
  const maxAge = remember && mayLast(call.req, call.secure) ? tokens.lifetimeS : undefined
  const device = call.req.headers['user-agent'] ?? null
  const token = await sessions.open(user, { remember, device, address: call.address })
  const session = { ...sessionCookie(call, token), ...(maxAge !== undefined && { maxAge }) }
  return { token, cookies: [session, csrfCookie(call.secure, maxAge)] }
}

export function sessionCookie(call: Call, value: string): Cookie {
  return { name: SESSION_COOKIE, value, httpOnly: true, sameSite: 'Lax', secure: call.secure }
}
