// Usage on the command line: the same sums as administrators' route.
import type { Config } from '../config/config.ts'
import { type UsageQuery, type UsageReport, usageReport } from '../thread/usage.ts'
import { withPeople } from './people.ts'
import { beside } from './operator.ts'

/**
 * What runs have taken.
 * @param user address, id or name of an account; null: of everybody
 * @throws Error when there is no SQL database, or no such account
 */
export async function listUsage(
  config: Config,
  query: Omit<UsageQuery, 'limit' | 'offset'>,
  user: string | null
): Promise<UsageReport> {
  const id = user === null ? null : await idOf(config, user)
  const all = { ...query, limit: Number.MAX_SAFE_INTEGER, offset: 0 }
  return beside(config, ({ usage }) => usageReport(usage, all, id, config.usage.currency))
}

async function idOf(config: Config, user: string): Promise<string> {
  return (await withPeople(config, (people) => people.find(user))).id
}

export { isBackwards, isDay, usageCsv, usageKeys } from '../thread/usage.ts'
