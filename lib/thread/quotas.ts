// Quotas: how much each user may use. An account's own quota wins over those of its groups, which win over everybody's.
import { LRUCache } from 'lru-cache'
import { QUOTA_LIMITS, type Quota, type QuotaLimits, type User } from '../base/accounts.ts'

type Limits = { -readonly [Name in keyof QuotaLimits]: QuotaLimits[Name] }

/** What a group has of a limit; null: what everybody has. */
export type GroupQuota = { readonly [Name in keyof QuotaLimits]?: number | null } & {
  readonly name: string
  /** Of which provider; null: of any. */
  readonly provider: string | null
}

interface QuotaOptions extends QuotaLimits {
  readonly groups: readonly GroupQuota[]
}

type Limited = Pick<User, 'id' | 'groups' | 'oauth_provider' | 'quota'>

/** For how long a change of an account's quota may go unseen by a process where its user does nothing. */
const FRESH_MS = 2_000
const KEPT_MAX = 10_000

export class Quotas {
  readonly #options: QuotaOptions
  readonly #userOf: (id: string) => Promise<Limited | null>
  /** Of users who have asked for something a moment ago: no query per run. Where everybody is limited, each request refreshes it. */
  readonly #known: LRUCache<string, QuotaLimits>

  constructor(options: QuotaOptions, userOf: (id: string) => Promise<Limited | null>, freshMs = FRESH_MS) {
    this.#options = options
    this.#userOf = userOf
    this.#known = new LRUCache({ max: KEPT_MAX, ttl: freshMs })
  }

  /** Whether more than accounts with a quota of their own are limited. */
  get limitsAll(): boolean {
    return this.#options.groups.length > 0 || QUOTA_LIMITS.some((name) => this.#options[name] > 0)
  }

  /** Of a user as the database has it now. */
  of({ id, groups = [], oauth_provider, quota }: Limited): QuotaLimits {
    if (!quota && groups.length === 0) return this.#everybodys(id)
    const own = this.#options.groups.filter(
      ({ name, provider }) => groups.includes(name) && (provider === null || provider === oauth_provider)
    )
    const limits = Object.fromEntries(
      QUOTA_LIMITS.map((name) => [name, quota?.[name] ?? mostOf(own, name) ?? this.#options[name]])
    ) as Limits
    this.#known.set(id, limits)
    return limits
  }

  #everybodys(id: string): QuotaLimits {
    this.#known.set(id, this.#options)
    return this.#options
  }

  /** Of a user by id; who has no account, as only a project's rules know him, has what everybody has. */
  async find(userId: string): Promise<QuotaLimits> {
    return this.#known.get(userId) ?? this.of((await this.#userOf(userId)) ?? { id: userId, oauth_provider: null })
  }
}

/** Whoever is in several groups has the most that one of them gives; 0 is no limit. */
function mostOf(groups: readonly GroupQuota[], name: keyof Quota): number | null {
  const given = groups.flatMap((group) => group[name] ?? [])
  if (given.length === 0) return null
  return given.includes(0) ? 0 : Math.max(...given)
}
