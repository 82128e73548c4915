// Parses the URL of a PostgreSQL database as libpq does: server, TLS, pool size, and settings for every connection. The
// driver would send unknown parts as startup parameters, which poolers refuse.
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

interface PostgresUrl {
  /** Host name, address, or socket folder. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  readonly ssl: 'require' | 'prefer' | 'verify-full' | false | ConnectionOptions
  /** Pool size for reads; null: not given. */
  readonly max: number | null
  /** Schema of our tables; null: the server's default. */
  readonly schema: string | null
  /** Settings of every connection, by name; they win over ours. */
  readonly settings: Readonly<Record<string, string>>
}

const DEFAULT_PORT = 5432
const FORM = 'postgres://user:password@host:port/name'

/**
 * Parameters other clients know that have no effect here: TLS does it anyway, our pool does it its own way, or
 * (`channel_binding`) the driver cannot do it; TLS still protects the password.
 */
const WITHOUT_MEANING = new Set(
  (
    'channel_binding connect_timeout connection_limit fallback_application_name gssencmode keepalives ' +
    'keepalives_count keepalives_idle keepalives_interval pgbouncer pool_timeout sslnegotiation sslsni ' +
    'target_session_attrs'
  ).split(' ')
)
const OF_TLS = new Set(['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'])

/** @throws Error with a sentence for the operator, without what the URL says: it may hold a password */
export function readUrl(text: string): PostgresUrl {
  const url = parsed(text)
  const query = Object.fromEntries(url.searchParams)
  const { max, schema, host, port, options, ...rest } = query
  const user = decoded(url.username)
  return {
    host: host ?? (decoded(url.hostname).replace(/^\[|\]$/g, '') || 'localhost'),
    port: wholeNumber('port', port ?? (url.port || String(DEFAULT_PORT))),
    user: user || 'postgres',
    password: decoded(url.password),
    // PostgreSQL's usual default.
    database: decoded(url.pathname.slice(1)) || user || 'postgres',
    ssl: tlsOf(query),
    max: max === undefined ? null : wholeNumber('max', max),
    schema: schema || null,
    settings: {
      ...(schema && { search_path: quoted(schema) }),
      ...settingsIn(options),
      ...Object.fromEntries(Object.entries(rest).filter(([name]) => !WITHOUT_MEANING.has(name) && !OF_TLS.has(name)))
    }
  }
}

/** The same server, another database. */
export function inDatabase(url: string, name: string): string {
  const other = parsed(url)
  other.pathname = `/${encodeURIComponent(name)}`
  // Not for our tables.
  other.searchParams.delete('schema')
  return other.href
}

function parsed(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  const many = /^postgres(ql)?:\/\/[^/]*,/.test(text)
  if (!many && (url?.protocol === 'postgres:' || url?.protocol === 'postgresql:')) return url
  throw new Error(
    many
      ? `The URL of the PostgreSQL database names several hosts: name one, ${FORM}`
      : `The URL of the PostgreSQL database is none: it must be ${FORM}, with %40 for @ and %2F for / in the password`
  )
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Error('The URL of the PostgreSQL database has a % that begins no code: write it as %25')
  }
}

function wholeNumber(name: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) > 0) return Number(text)
  throw new Error(`The URL of the PostgreSQL database says ${name}=${text}: it must be a whole number from 1 on`)
}

/** `-c name=value -c name=value`. */
function settingsIn(options = ''): Record<string, string> {
  return Object.fromEntries(
    [...options.matchAll(/(?:-c\s*|--)([\w.]+)=((?:\\.|\S)*)/g)].map(([, name, value]) => [name, value])
  )
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function tlsOf(query: Readonly<Record<string, string>>): PostgresUrl['ssl'] {
  const { sslrootcert, sslcert, sslkey } = query
  const mode = query.sslmode ?? query.ssl ?? (sslrootcert ? 'verify-ca' : 'disable')
  const files = {
    ...(sslrootcert && sslrootcert !== 'system' && { ca: fileOf('sslrootcert', sslrootcert) }),
    ...(sslcert && { cert: fileOf('sslcert', sslcert) }),
    ...(sslkey && { key: fileOf('sslkey', sslkey) })
  }
  switch (mode) {
    case 'disable':
    case 'false':
      return false
    case 'allow':
    case 'prefer':
      return 'prefer'
    case 'require':
    case 'true':
    case 'no-verify':
      // Given a root certificate, libpq verifies.
      if (sslrootcert) return { ...files, checkServerIdentity: () => undefined }
      return sslcert ? { ...files, rejectUnauthorized: false } : 'require'
    case 'verify-ca':
      return { ...files, checkServerIdentity: () => undefined }
    case 'verify-full':
      return Object.keys(files).length > 0 ? files : 'verify-full'
    default:
      throw new Error(
        `The URL of the PostgreSQL database says sslmode=${mode}: it must be disable, prefer, require, verify-ca or verify-full`
      )
  }
}

function fileOf(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`The file that ${name} names in the URL of the PostgreSQL database cannot be read: ${path}`, {
      cause: error
    })
  }
}
