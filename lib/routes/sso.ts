// Signing in at a provider: the list of them, the way there and back, and the end of sessions that a provider announces.
import * as v from 'valibot'
import { actorOf, userName } from '../auth/audit.ts'
import { JOURNEY_S } from '../auth/single-sign-on.ts'
import { Failure, fail } from '../base/errors.ts'
import { Allowance } from '../http/admission.ts'
import { baseUrlOf } from '../http/base-path.ts'
import { Origins } from '../http/entry.ts'
import { cookieOf, targetOf } from '../http/request.ts'
import { type Call, type Cookie, type Reply, type Route, route } from '../http/route.ts'
import { objectOf } from '../http/schema.ts'
import { arrayOf, one, oneOf, ref, shaped, text } from './answers.ts'
import type { AuthServices } from './services.ts'
import { openSession } from './open-session.ts'

const AUTH = '/api/v1/auth'
const LOGOUT_TOKEN_MAX = 8192
const logoutBody = objectOf({ logout_token: v.pipe(v.string(), v.maxLength(LOGOUT_TOKEN_MAX)) })
const startQuery = objectOf({ next: v.optional(v.pipe(v.string(), v.maxLength(2048)), '/') })
/** Of a state: several tabs may be on their way at once. */
const STATE_LENGTH = 12

/** By failures that are no trouble of ours: the codes that pages know, as DeerFlow's login page does. */
const SHOWN: ReadonlyMap<string, string> = new Map([
  ['sso_not_allowed', 'sso_not_allowed'],
  ['account_disabled', 'sso_not_allowed'],
  ['sso_account_exists', 'sso_account_exists']
])

export function ssoRoutes(services: AuthServices): Route[] {
  const { config, audit, log, sso = null } = services
  const origins = new Origins(config.server.cors_origins, () => {})
  const arrivals = new Allowance()

  const homeOf = (call: Call): URL => new URL(`${baseUrlOf(call, config.server.public_url)}/`)

  /** @throws Failure sso_next_refused */
  const placeOf = (call: Call, next: string): URL => {
    const own = homeOf(call)
    const place = URL.parse(next, own.href)
    // Pages name paths of theirs with or without the path that we lie below.
    if (place && next.startsWith('/') && place.origin === own.origin && !`${place.pathname}/`.startsWith(own.pathname))
      place.pathname = own.pathname + place.pathname.slice(1)
    const isOurs = place !== null && (place.origin === own.origin || origins.has(place.origin))
    return isOurs && /^https?:$/.test(place.protocol) ? place : fail('sso_next_refused')
  }

  /** Back to the page that asked, with the reason. Our own page is at our root; others sign in at /login, below our path if they are. */
  const refused = (call: Call, place: URL, error: unknown): Reply => {
    const known = error instanceof Failure ? SHOWN.get(error.code) : undefined
    const code = known ?? 'sso_failed'
    const { origin, pathname: home } = homeOf(call)
    const root = place.origin === origin && place.pathname.startsWith(home) ? home : '/'
    const target = new URL(place.pathname === home ? home : `${root}login`, place)
    target.searchParams.set('error', error === CANCELLED ? 'sso_cancelled' : code)
    if (known === undefined && error !== CANCELLED)
      log.warn({ err: error, request_id: call.requestId }, 'a sign-in at a provider has failed')
    return { status: 302, headers: { Location: target.href } }
  }

  const begin = async (call: Call<unknown, v.InferOutput<typeof startQuery>>): Promise<Reply> => {
    const provider = call.params.provider!
    if (!sso?.has(provider)) throw unsupported(provider)
    const place = placeOf(call, call.query.next)
    const redirectUri = `${baseUrlOf(call, config.server.public_url)}${AUTH}/callback/${provider}`
    try {
      const { url, state, sealed } = await sso.begin(provider, { redirectUri, next: place.href })
      return {
        status: 302,
        headers: { Location: url },
        cookies: [{ ...journeyCookie(call, state, sealed), maxAge: JOURNEY_S }]
      }
    } catch (error) {
      return refused(call, place, error)
    }
  }

  const finish = async (call: Call): Promise<Reply> => {
    const provider = call.params.provider!
    if (!sso?.has(provider)) throw unsupported(provider)
    const seconds = arrivals.ask(call.address)
    if (seconds > 0) throw fail('too_many_sign_ins', null, { 'Retry-After': String(seconds) })
    const { search } = targetOf(call.req)
    const query = new URLSearchParams(search)
    const state = query.get('state') ?? ''
    const { name } = journeyCookie(call, state, '')
    const gone: Cookie = { ...journeyCookie(call, state, ''), maxAge: 0 }
    const journey = await sso.journeyOf(provider, cookieOf(call.req, name), state)
    // Whoever comes without having set out may be sent by somebody else, to be signed in as that one.
    if (journey === null) return refused(call, homeOf(call), fresh('no sign-in began in this browser'))
    const place = new URL(journey.next)
    try {
      if (query.has('error')) throw query.get('error') === 'access_denied' ? CANCELLED : fresh('the provider refused')
      const [user, attach] = await sso.finish(journey, search, actorOf(call))
      const { token, cookies } = await openSession(services, call, user, true)
      await attach(token)
      await audit.record('sign_in', { ...actorOf(call), actor: userName(user.id) }, null, { provider })
      return { status: 302, headers: { Location: place.href }, cookies: [...cookies, gone] }
    } catch (error) {
      const reason = error instanceof Failure ? error.code : error === CANCELLED ? 'cancelled' : 'failed'
      services.onLoginRefused?.(reason)
      await audit.record('sign_in_failed', actorOf(call), null, { provider, reason })
      return { ...refused(call, place, error), cookies: [gone] }
    }
  }

  const backChannel = async (call: Call<v.InferOutput<typeof logoutBody>>): Promise<Reply> => {
    const provider = call.params.provider!
    if (!sso?.has(provider)) throw fail('not_found')
    await sso.backChannelLogout(provider, call.body.logout_token)
    return { json: { success: true } }
  }

  const open = { method: 'GET', access: 'public', rule: null } as const
  const sent = { 302: { description: 'To the next page', headers: { Location: 'Where the browser goes' } } } as const
  const refusal = { schema: ref('Refusal') } as const
  return [
    route({
      ...open,
      path: `${AUTH}/providers`,
      summary: 'Sign-in providers',
      answers: one(shaped({ providers: arrayOf(shaped({ id: text, display_name: text, type: oneOf('oidc') })) })),
      handler: () => ({ json: { providers: sso?.providers() ?? [] } })
    }),
    route({
      ...open,
      path: `${AUTH}/oauth/{provider}`,
      query: startQuery,
      summary: 'Sign in with a provider',
      answers: { ...sent, 501: refusal },
      refusals: [400],
      handler: begin
    }),
    route({
      ...open,
      path: `${AUTH}/callback/{provider}`,
      summary: 'Redirect target of a provider',
      reads: { query: { code: 'Of the provider', state: 'As it was sent there', error: 'Why it refuses' } },
      answers: { ...sent, 501: refusal },
      refusals: [400, 429],
      handler: finish
    }),
    route({
      method: 'POST',
      access: 'public',
      csrf: 'exempt',
      rule: null,
      form: true,
      path: `${AUTH}/backchannel/{provider}`,
      body: logoutBody,
      summary: 'Ends sessions by the logout token of a provider (OpenID Connect Back-Channel Logout)',
      answers: one(shaped({ success: { const: true } })),
      refusals: [400, 404],
      handler: backChannel
    })
  ]
}

const CANCELLED = new Error('the person has cancelled')

function fresh(text: string): Error {
  return new Error(text)
}

function journeyCookie({ secure }: Call, state: string, value: string): Cookie {
  const name = `sso_${state.slice(0, STATE_LENGTH).replace(/[^\w-]/g, '')}`
  return { name, value, httpOnly: true, sameSite: 'Lax', secure }
}

function unsupported(provider: string): Failure {
  return ['github', 'google'].includes(provider)
    ? new Failure('oauth_not_implemented')
    : new Failure('oauth_unsupported', { provider })
}
