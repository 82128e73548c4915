// Secrets in a tool server's configuration: masked in responses, kept when the mask is sent back, and never sent to an address
// they were not entered for.
import type { McpServerConfig } from './command-policy.ts'

/** The mask: replaces a secret in responses, and means "unchanged" in requests. */
const MASK = '***'

/** Words in names of flags and variables with secret values. */
const SECRET_NAME = /key|token|secret|passw|pwd|auth|credential|bearer|cookie|session/i
/** Maximum length of a name. */
const NAME_MAX = 64
/** Shorter values are not redacted, because they would match everywhere. */
const SECRET_MIN = 4

type Values = Readonly<Record<string, string>>

/** The configuration with all secrets masked. */
export function masked(config: McpServerConfig): McpServerConfig {
  const { oauth } = config
  return {
    ...config,
    args: maskedArgs(config.args),
    env: maskedValues(config.env),
    url: config.url === null ? null : maskedUrl(config.url),
    headers: maskedValues(config.headers),
    oauth: oauth && {
      ...oauth,
      token_url: maskedUrl(oauth.token_url),
      client_secret: oauth.client_secret === null ? null : MASK,
      refresh_token: oauth.refresh_token === null ? null : MASK,
      extra_token_params: maskedValues(oauth.extra_token_params)
    }
  }
}

/** Replaces masks by the values in `before`. A mask without one is dropped, or kept for `problemOfMasks` to report. */
export function unmasked(config: McpServerConfig, before: McpServerConfig | undefined): McpServerConfig {
  const { oauth } = config
  const old = before?.oauth ?? null
  return {
    ...config,
    args: unmaskedArgs(config.args, before?.args ?? []),
    env: unmaskedValues(config.env, before?.env),
    url: config.url === null ? null : unmaskedUrl(config.url, before?.url),
    headers: unmaskedValues(config.headers, before?.headers),
    oauth: oauth && {
      ...oauth,
      token_url: unmaskedUrl(oauth.token_url, old?.token_url),
      client_secret: oauth.client_secret === MASK ? (old?.client_secret ?? null) : oauth.client_secret,
      refresh_token: oauth.refresh_token === MASK ? (old?.refresh_token ?? null) : oauth.refresh_token,
      extra_token_params: unmaskedValues(oauth.extra_token_params, old?.extra_token_params)
    }
  }
}

/**
 * Whether an incoming configuration would send masked secrets to a new address: changing an address must not reveal the secret.
 * @returns the problem, as a sentence for the administrator; null: none
 */
export function problemOfMasks(config: McpServerConfig, before: McpServerConfig | undefined): string | null {
  const after = unmasked(config, before)
  const places = [...after.args, after.url ?? '', after.oauth?.token_url ?? '']
  if (places.some((place) => place.includes(MASK)))
    return 'a mask in its arguments or addresses stands for nothing: write the secret itself'
  if (before === undefined) return null
  const { oauth, env, headers } = config
  const oauthMasked =
    oauth !== null && hasMask({ ...oauth.extra_token_params, a: oauth.client_secret, b: oauth.refresh_token })
  if ((oauthMasked || hasMask(headers)) && after.url !== before.url) return moved('url')
  if (oauthMasked && after.oauth?.token_url !== before.oauth?.token_url) return moved('token_url')
  const isSameProgram = after.type === before.type && after.command === before.command
  const hasSecretArgs = config.args.some((arg) => arg.includes(MASK))
  if ((hasMask(env) || hasSecretArgs) && !(isSameProgram && packageOf(after) === packageOf(before)))
    return moved('command or package')
  return null
}

/** All secrets of a configuration, for redacting them from the server's messages. */
export function secretsIn(config: McpServerConfig): string[] {
  const { args, env, headers, url, oauth } = config
  const shown = maskedArgs(args)
  const inArgs = args.flatMap((arg, at) => (shown[at] === arg ? [] : [arg, secretPart(arg, shown[at]!)]))
  const inUrls = [url, oauth?.token_url].flatMap((one) => (one ? [...queryOf(one).values()] : []))
  const ofOAuth = oauth ? [oauth.client_secret, oauth.refresh_token, ...Object.values(oauth.extra_token_params)] : []
  const all = [...inArgs, ...Object.values(env), ...Object.values(headers), ...inUrls, ...ofOAuth]
  return all.filter((value) => value !== null && value.length >= SECRET_MIN) as string[]
}

/** Redacts secrets in a text. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, secret) => left.replaceAll(secret, MASK), text)
}

function moved(what: string): string {
  return `its ${what} is another one: write the secrets for it, masks stand for those of the one before`
}

function hasMask(values: Readonly<Record<string, string | null>>): boolean {
  return Object.values(values).includes(MASK)
}

/** The package that a launcher runs: its first argument that is no flag. */
function packageOf({ args }: McpServerConfig): string | undefined {
  return args.find((arg) => !arg.startsWith('-'))
}

// --------------------------------------------------------------------------------------------------- arguments

function maskedArgs(args: readonly string[]): string[] {
  return args.map((arg, at) => maskedArg(arg, args[at - 1]))
}

/** Masks `--api-key=x`, `API_KEY=x`, `Authorization: x`, an argument after `--api-key`, and queries of URLs. */
function maskedArg(arg: string, before: string | undefined): string {
  if (before !== undefined && /^--?[\w-]+$/.test(before) && isSecretName(before) && !arg.startsWith('-')) return MASK
  if (URL.canParse(arg) && arg.includes('://')) return maskedUrl(arg)
  const [whole, name = '', mark = ''] = /^([\w-]{1,64})(=|: ?)(?=.)/s.exec(arg) ?? []
  if (whole === undefined) return /^bearer \S/i.test(arg) ? MASK : arg
  // The value of another flag may be a header or URL with a secret.
  return (
    whole +
    (isSecretName(name) ? MASK : mark === '=' ? maskedArg(arg.slice(whole.length), undefined) : arg.slice(whole.length))
  )
}

function isSecretName(name: string): boolean {
  return name.length <= NAME_MAX && SECRET_NAME.test(name)
}

/** The part of an argument that the mask hides. */
function secretPart(arg: string, shown: string): string {
  const at = shown.indexOf(MASK)
  return arg.slice(at, arg.length - (shown.length - at - MASK.length))
}

/** Finds masked arguments at their old place, or after the same flag elsewhere; others keep their mask. */
function unmaskedArgs(args: readonly string[], before: readonly string[]): string[] {
  const shown = maskedArgs(before)
  const left = new Set(before.keys())
  return args.map((arg, at) => {
    if (!arg.includes(MASK)) return arg
    const fits = (i: number) => shown[i] === arg && (arg !== MASK || shown[i - 1] === args[at - 1])
    const found = [at, ...left].find((i) => left.has(i) && fits(i))
    if (found === undefined) return arg
    left.delete(found)
    return before[found]!
  })
}

// --------------------------------------------------------------------------------------------------- addresses

function queryOf(address: string): URLSearchParams {
  return URL.canParse(address) ? new URL(address).searchParams : new URLSearchParams()
}

/** Masks the values of the query; unchanged without one. */
function maskedUrl(address: string): string {
  if (queryOf(address).size === 0) return address
  const url = new URL(address)
  url.search = new URLSearchParams(
    [...url.searchParams.keys()].map((name): [string, string] => [name, MASK])
  ).toString()
  return url.href
}

/** Restores the old URL if nothing but masks differs. */
function unmaskedUrl(address: string, before: string | null | undefined): string {
  return before && address.includes(MASK) && maskedUrl(before) === address ? before : address
}

// ------------------------------------------------------------------------------------------------------ values

function maskedValues(values: Values): Values {
  return Object.fromEntries(Object.keys(values).map((name) => [name, MASK]))
}

function unmaskedValues(values: Values, before: Values = {}): Values {
  const kept = Object.entries(values).map(([name, value]) => [name, value === MASK ? before[name] : value] as const)
  return Object.fromEntries(kept.filter((entry): entry is readonly [string, string] => entry[1] !== undefined))
}
