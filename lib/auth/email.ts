// E-mail addresses: one form for every way to write the same one.

// Nothing invisible either: two accounts whose addresses look the same would be mistaken for each other.
const LOCAL = /^[^"(),:;<>@[\\\]\p{C}\p{Z}]+$/u
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}-]{0,61}[\p{L}\p{N}\p{M}])?$/u
/** Names that belong to nobody [RFC 2606, 6761]; example.com is fine. */
const RESERVED = new Set(['test', 'local', 'localhost', 'invalid'])
/** Characters, as the users table takes them. */
const LENGTH_MAX = 320
/** Of an address before it is in its one form, which may be shorter. */
const UNITS_MAX = 4 * LENGTH_MAX
const LOCAL_MAX = 64
const DOMAIN_MAX = 253

/** The one form under which an address is kept and looked up [contract 1.3]. Does not ask whether it is an address. */
export function emailKey(text: string): string {
  // To normalise costs the square of the length where accents are heaped up; nobody has an address that is so long.
  if (text.length > UNITS_MAX) return ''
  return text.trim().toLowerCase().normalize('NFC')
}

/** The address in its one form, without blanks around it or a name before it; or what is wrong with it. */
export function readEmail(text: string): { readonly email: string } | { readonly problem: string } {
  if (text.length > UNITS_MAX) return { problem: 'The email address is too long.' }
  const wrapped = /^[^<>]*<([^<>]*)>$/.exec(text.trim())
  const email = emailKey(wrapped?.[1] ?? text)
  const at = email.lastIndexOf('@')
  if (at < 0) return { problem: 'An email address must have an @-sign.' }
  const problem = localProblem(email.slice(0, at)) ?? domainProblem(email.slice(at + 1))
  if (problem) return { problem }
  return email.length > LENGTH_MAX ? { problem: 'The email address is too long.' } : { email }
}

function localProblem(local: string): string | null {
  if (local === '') return 'There must be something before the @-sign.'
  if (local.length > LOCAL_MAX) return 'The email address is too long before the @-sign.'
  const isMisdotted = local.startsWith('.') || local.endsWith('.') || local.includes('..')
  return isMisdotted || !LOCAL.test(local) ? 'The email address contains invalid characters before the @-sign.' : null
}

function domainProblem(domain: string): string | null {
  if (domain === '') return 'There must be something after the @-sign.'
  const labels = domain.split('.')
  if (labels.length < 2) return 'The part after the @-sign is not valid. It should have a period.'
  if (domain.length > DOMAIN_MAX || !labels.every((label) => LABEL.test(label)))
    return 'The part after the @-sign contains invalid characters.'
  const top = labels.at(-1) ?? ''
  if (/^\d+$/.test(top)) return 'The part after the @-sign is not valid.'
  return RESERVED.has(top)
    ? 'The part after the @-sign is a special-use or reserved name that cannot be used with email.'
    : null
}
