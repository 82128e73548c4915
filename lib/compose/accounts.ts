// Assembles who may come in and as whom: sessions, tokens, links, sign-in elsewhere, and the people that administrators look after.
import { exportOf } from '../auth/account-export.ts'
import { ApiTokens, Invitations } from '../auth/api-tokens.ts'
import { Audit, linkName, userName } from '../auth/audit.ts'
import { Credentials, type InnerCalls } from '../auth/credentials.ts'
import { Holds } from '../auth/holds.ts'
import { People } from '../auth/people.ts'
import { openTokens, type Revocation, Sessions } from '../auth/session.ts'
import { SetupLink } from '../auth/setup-link.ts'
import { SingleSignOn } from '../auth/single-sign-on.ts'
import { ThreadLinks } from '../auth/thread-links.ts'
import { warnUnexpected } from '../base/errors.ts'
import { currentRequestId } from '../base/scope.ts'
import type { Config } from '../config/config.ts'
import type { Paths } from '../files/paths.ts'
import { isLoopbackName } from '../base/networks.ts'
import type { Log } from '../http/server.ts'
import { departureOf } from '../jobs/departures.ts'
import { loadMailer } from '../jobs/mail-server.ts'
import { passwordMailOf } from '../jobs/password-mails.ts'
import type { AuthServices } from '../routes/services.ts'
import { scopedStore } from '../store/scoped.ts'
import type { Store, Writer } from '../store/store.ts'
import { QuotaBlocks } from '../thread/quota-blocks.ts'
import { Quotas } from '../thread/quotas.ts'
import { newestJson } from '../thread/state.ts'
import { UserLimits } from '../thread/user-limits.ts'
import { limitsOf } from './run.ts'

interface AccountParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly writer: Writer
  readonly limits: UserLimits
  readonly paths: Paths
  readonly innerCalls: InnerCalls
  /** A credential, or all of a user's, counts no more. */
  readonly onRevoked: (revocation: Revocation) => void
}

/** What the routes of accounts are given of them. */
export type Accounts = Omit<
  AuthServices,
  'config' | 'writer' | 'log' | 'audit' | 'allowanceOf' | 'onLoginRefused' | 'webPush'
>

export async function composeAccounts(parts: AccountParts): Promise<{
  readonly accounts: Accounts
  readonly audit: Audit
  readonly credentials: Credentials
  readonly setupLink: SetupLink | null
}> {
  const { config, log, store, writer, limits, paths, innerCalls, onRevoked } = parts
  const { users } = store
  const { apiTokens: reads } = scopedStore(store)
  const audit = new Audit({ writer, log })
  const byAddress = (actor: string, address: string) => ({
    actor,
    address: address || null,
    requestId: currentRequestId()
  })
  const tokens = await openTokens({
    home: config.home,
    secret: config.auth.jwt_secret,
    expiryDays: config.auth.token_expiry_days
  })
  const sessions = new Sessions({ users, tokens, writer, onRevoked, log })
  const apiTokens = new ApiTokens({
    reads,
    users,
    writer,
    log,
    onRevoked,
    onActing: (by, userId, address) =>
      void audit.record('acting_for', byAddress(userName(by), address), userName(userId)).catch(warnUnexpected)
  })
  const threadLinks = new ThreadLinks({
    sharing: config.sharing,
    reads,
    writer,
    sessions,
    onRevoked,
    onOpened: ({ token_id, thread_id = '' }, viewerId, address) => {
      const by = byAddress(viewerId === null ? 'nobody' : userName(viewerId), address)
      void audit.record('link_opened', by, linkName(token_id), { thread_id }).catch(warnUnexpected)
    }
  })
  const people = new People({
    store: scopedStore(store),
    writer,
    apiTokens,
    audit,
    home: config.home,
    departureOf,
    passwordMailOf,
    onRevoked
  })
  // Or it would be missing when the first one asks.
  if (config.mail.url !== null) await loadMailer()
  const { lifetimeS, seal } = tokens
  const setupLink = needsSetupLink(config) ? new SetupLink(config.home) : null
  const accounts: Accounts = {
    users,
    sessions,
    tokens,
    apiTokens,
    threadLinks,
    invitations: new Invitations(reads, writer),
    people,
    holds: new Holds({ store, writer, audit }),
    sso: new SingleSignOn({
      ...{ options: config.auth.oidc, users, writer, sessions, apiTokens, people, audit, seal, lifetimeS, log }
    }),
    setupLink,
    limits,
    exportOf: (user) =>
      exportOf({ store, stateOf: (id) => newestJson(store, id), folderOf: (userId) => paths.userDir(userId) }, user)
  }
  return { accounts, audit, credentials: new Credentials(sessions, apiTokens, threadLinks, innerCalls), setupLink }
}

/** Whoever comes first makes the administrator: beyond this machine that could be anybody [Auth 11]. */
function needsSetupLink({ auth, server: { host } }: Config): boolean {
  return auth.local && auth.setup_link === 'auto' && !isLoopbackName(host)
}

/** Logs how the first administrator comes in, and who else may. */
export async function welcome({
  config: { auth, server },
  log,
  users,
  setupLink,
  url
}: {
  readonly config: Config
  readonly log: Log
  readonly users: Store['users']
  readonly setupLink: SetupLink | null
  readonly url: string
}): Promise<void> {
  if ((await users.admin()) === null) {
    await setupLink?.write(server.public_url ?? url)
    if (setupLink) log.info({ file: setupLink.file }, 'there is no administrator yet: the link in this file makes one')
    else log.info({}, 'there is no administrator yet: create one with POST /api/v1/auth/initialize')
  }
  if (auth.registration === 'open' && !isLoopbackName(new URL(url).hostname))
    log.warn(
      { host: server.host },
      'anyone who can reach this address can register: set auth.registration to invite or closed to prevent that'
    )
}

/** What a user may have and use, and the blocks of quotas that this process has taken for its users. */
export function composeLimits({
  config,
  log,
  store: { users, usage },
  writer
}: Pick<AccountParts, 'config' | 'log' | 'store' | 'writer'>): {
  readonly limits: UserLimits
  readonly blocks: QuotaBlocks
} {
  const blocks = new QuotaBlocks({
    writer,
    onTrouble: (error) => log.warn({ err: error }, 'what is left of a quota could not be given back')
  })
  const quotas = new Quotas(config.quotas, (id) => users.byId(id))
  const { currency } = config.usage
  return {
    limits: new UserLimits({ ...{ users, usage, writer, limits: limitsOf(config), quotas, blocks, currency } }),
    blocks
  }
}
