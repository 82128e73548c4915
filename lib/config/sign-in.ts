// Options of sign-ins at providers: OpenID Connect.
import * as v from 'valibot'
import { filled, flag, nullable, section, text, texts, webAddress, whole } from './kinds.ts'

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
