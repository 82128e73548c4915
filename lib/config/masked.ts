// A configuration as it may be shown: secrets, and headers and addresses that may hold a secret, are masked.
import type { Config } from './config.ts'
import { unusedOptions } from './config.ts'
import { isTree } from './environment.ts'

const MASK = '***'
/** Names of options whose value is a secret, and of parameters that may be one. */
const SECRET = /(^|[_-])(key|keys|secret|password|passwd|token|tokens|authorization|cookie|credential|credentials)$/i
/** What is passed on unchanged to models, servers and modules: any text of it may be a secret. */
const PASSED_ON: ReadonlySet<string> = new Set(['request', 'headers', 'options'])

/** Every option as it counts: defaults, file, environment and flags together; of no file, null. */
export interface ShownConfig {
  readonly file: string | null
  readonly options: unknown
  readonly warnings: readonly string[]
}

export function shownConfig(config: Config): ShownConfig {
  const { file, unusedVariables: _, ...options } = config
  return { file, options: masked(options), warnings: unusedOptions(config) }
}

/** The same options; texts that are secrets, or may be, are masked. */
export function masked(value: unknown, name = '', isPassedOn = false): unknown {
  if (Array.isArray(value)) return value.map((item) => masked(item, name, isPassedOn))
  if (isTree(value)) {
    const isInside = isPassedOn || PASSED_ON.has(name)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, masked(inner, key, isInside)]))
  }
  if (typeof value !== 'string' || value === '') return value
  if (isPassedOn || SECRET.test(name)) return MASK
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? maskedAddress(value) : value
}

/** An address may have a password, and keys in its query. */
function maskedAddress(text: string): string {
  const url = URL.parse(text)
  if (url === null) return MASK
  if (url.password !== '') url.password = MASK
  // A user without a password may be a token.
  else if (url.username !== '') url.username = MASK
  for (const name of new Set(url.searchParams.keys())) url.searchParams.set(name, MASK)
  return url.search === '' && url.password === '' && url.username === '' ? text : url.href.replaceAll('%2A', '*')
}
