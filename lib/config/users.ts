// Options of users: how they sign in at providers (OpenID Connect), and how much each may use.
import * as v from 'valibot'
import { filled, flag, nullable, section, text, texts, webAddress, whole, number } from './kinds.ts'

const DAY_S = 86_400

const group = v.object(
  {
    // As the provider names it.
    name: filled(),
    // Role of its people. Where any group has one, the provider decides over roles at every sign-in, and who is in none is a user.
    role: v.nullish(v.picklist(['admin', 'auditor'], 'must be admin or auditor'), null),
    // Models for this group alone, and for others that name them; administrators have all. What no group names is everybody's.
    models: texts(),
    // Agents, likewise.
    agents: texts()
  },
  'is missing'
)

const provider = v.object(
  {
    // Part of its addresses: /api/v1/auth/callback/<id> is the redirect URI to enter at the provider.
    id: v.pipe(
      filled(),
      v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must be of small letters, digits and dashes, 32 at most')
    ),
    // What pages show. null: the id.
    display_name: nullable(),
    // <issuer>/.well-known/openid-configuration describes it.
    issuer: webAddress(),
    // What the provider calls this service.
    client_id: filled(),
    // Never shown or logged. null: a public client, by PKCE alone.
    client_secret: nullable(),
    // Without offline_access many providers give no refresh token, and a session stands until it expires or the provider announces its end.
    scope: text('openid email profile offline_access'),
    // What the provider asks at every sign-in: login, consent, select_account. null: what it thinks right. Some give refresh tokens after consent alone.
    prompt: nullable(),
    // Where the groups of somebody stand, in the ID token or in what the provider says of its user.
    groups_claim: text('groups'),
    // Groups that have a role, or models and agents of their own.
    groups: v.nullish(v.array(group, 'must be a list'), []),
    // Groups that may come in. Empty: everybody whom the provider knows.
    allowed_groups: texts(),
    // Domains of confirmed e-mail addresses that may come in. Empty: any.
    allowed_domains: texts(),
    // The first sign-in makes an account. Off: who has none here is refused.
    create_users: flag(true),
    // It confirms addresses: a first sign-in takes over the user's account that has the same one, whose password ends. Never an administrator's. Where
    // people write any address into their profile there, this gives them each other's accounts.
    trusts_email: flag(false)
  },
  'is missing'
)

export const oidc = section({
  // Seconds in which a session ends whose refresh the provider refuses. Too short: one request a session and half of it; too long: who has
  // left the company stays in.
  recheck_s: whole(300, 4, DAY_S),
  // Providers, each with what it calls this service. None: nobody signs in by one.
  providers: v.nullish(v.array(provider, 'must be a list'), [])
})

// ------------------------------------------------------------------------------------------------------- quotas

const MONEY_MAX = 1_000_000_000
const quotaOfGroup = v.object(
  {
    // As the provider names it.
    name: filled(),
    // Id of the provider; null: of any.
    provider: nullable(),
    // Runs a day; null: what everybody has, 0: no limit.
    runs_per_day: v.nullish(whole(0, 0), null),
    // Tokens a day, likewise.
    tokens_per_day: v.nullish(whole(0, 0), null),
    // Money a month, likewise.
    money_per_month: v.nullish(number(0, 0, MONEY_MAX), null),
    // Bytes, likewise.
    bytes: v.nullish(whole(0, 0), null),
    // Runs at once, likewise.
    runs_at_once: v.nullish(whole(0, 0), null),
    // Requests a second, likewise.
    requests_per_second: v.nullish(whole(0, 0), null)
  },
  'is missing'
)

// What each user may use, on all processes together; an account may have a quota of its own (colloquy user quota). Days and months are those
// of UTC. Above it no run begins (429); one that has begun is never cut.
export const quotas = section({
  // Runs that a user may start a day.
  runs_per_day: whole(0, 0),
  // Tokens of a user's runs a day, in and out, as providers report them.
  tokens_per_day: whole(0, 0),
  // Money of a user's runs a month, by models[].price. Without it one script spends the budget of all.
  money_per_month: number(0, 0, MONEY_MAX),
  // Bytes that runs of a user's threads have stored, about, as threads.user_bytes.
  bytes: whole(0, 0),
  // Runs of a user that are pending or running, counted on all processes; runs.active_per_user counts on each.
  runs_at_once: whole(0, 0),
  // Requests of a user a second, on each process; of a token that acts for somebody also those of its account. Without it one script keeps the others waiting.
  requests_per_second: whole(0, 0),
  // Groups of sign-in providers: what a group says counts for each of its people in place of the above; of several groups the most.
  groups: v.nullish(v.array(quotaOfGroup, 'must be a list'), [])
})
