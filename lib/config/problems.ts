// Problems of a configuration, as sentences for the person who wrote it.
import type * as v from 'valibot'
import { join } from './tree.ts'

/** The configuration cannot be used; each problem is one sentence for the person who wrote it. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** @throws ConfigError when there is a problem */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigError(problems)
}

/**
 * Turns schema issues into sentences. Only numbers, booleans and choices are quoted: any other value may be a key.
 * @param names by path: the name of the flag or variable a value came from
 */
export function sentence(issue: v.BaseIssue<unknown>, names: ReadonlyMap<string, string>): string {
  const path = (issue.path ?? []).reduce(
    (way, item) => (typeof item.key === 'number' ? `${way}[${item.key}]` : join(way, String(item.key))),
    ''
  )
  const isShown = typeof issue.input === 'number' || typeof issue.input === 'boolean' || issue.type === 'picklist'
  return `${names.get(path) ?? path} ${issue.message}${isShown ? ` (it is ${String(issue.input)})` : ''}.`
}
