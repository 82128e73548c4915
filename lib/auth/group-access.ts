// Which models and agents somebody may use by the groups that a provider has named: what a group is given is for that group alone.
import type { User } from '../base/accounts.ts'
import { fail } from '../base/errors.ts'
import type { GroupRule } from './oidc-provider.ts'

type Kind = 'models' | 'agents'

interface Rules {
  readonly id: string
  readonly groups: readonly GroupRule[]
}

export class GroupAccess {
  /** By kind and name: the groups that have it, with their provider. What is not there is everybody's. */
  readonly #groups: Readonly<Record<Kind, ReadonlyMap<string, ReadonlySet<string>>>>
  readonly #userOf: (id: string) => Promise<User | null>

  constructor(providers: readonly Rules[], userOf: (id: string) => Promise<User | null>) {
    this.#groups = { models: groupsBy('models', providers), agents: groupsBy('agents', providers) }
    this.#userOf = userOf
  }

  /** Administrators may use all. */
  mayUse(kind: Kind, name: string, user: User | null): boolean {
    const groups = this.#groups[kind].get(name)
    if (groups === undefined || user?.system_role === 'admin') return true
    const { oauth_provider, groups: own = [] } = user ?? {}
    return own.some((group) => groups.has(keyOf(oauth_provider ?? '', group)))
  }

  /** @throws Failure model_not_allowed */
  checkModel(name: string, user: User | null): void {
    if (!this.mayUse('models', name, user)) throw fail('model_not_allowed', { name })
  }

  /**
   * The model that somebody has named, or else the operator's choice, or the first of these that the user may use; null: the first of all.
   * @throws Failure model_not_allowed, also when all are for other groups
   */
  modelFor(
    user: User | null,
    named: string | null,
    models: readonly { readonly name: string }[],
    chosen: string | null = null
  ): string | null {
    if (named !== null) this.checkModel(named, user)
    const [first] = models
    if (named !== null || chosen !== null || !first) return named ?? chosen
    const allowed = models.find(({ name }) => this.mayUse('models', name, user))
    if (!allowed) throw fail('model_not_allowed', { name: first.name })
    return allowed === first ? null : allowed.name
  }

  /** Which agents somebody may use; null: nobody, who has what is everybody's. */
  async agentsFor(userId: string | null): Promise<(name: string) => boolean> {
    const user = await this.userFor(userId)
    return (name) => this.mayUse('agents', name, user)
  }

  /** The user with whom `mayUse` is asked; null where all may use everything, and nobody is looked up. */
  async userFor(userId: string | null): Promise<User | null> {
    const isOpen = this.#groups.models.size === 0 && this.#groups.agents.size === 0
    return isOpen || userId === null ? null : this.#userOf(userId)
  }
}

function groupsBy(kind: Kind, providers: readonly Rules[]): Map<string, Set<string>> {
  const groups = new Map<string, Set<string>>()
  for (const { id, groups: rules } of providers)
    for (const rule of rules)
      for (const name of rule[kind]) groups.set(name, (groups.get(name) ?? new Set()).add(keyOf(id, rule.name)))
  return groups
}

function keyOf(provider: string, group: string): string {
  return `${provider}\n${group}`
}
