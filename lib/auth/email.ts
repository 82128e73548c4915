// E-mail addresses: one form for every way to write the same one.

const LOCAL = /^[^\s"(),:;<>@[\\\]\p{Cc}]+$/u
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u
/** Names that belong to nobody [RFC 2606, 6761]; example.com is fine. */
const RESERVED = new Set(['test', 'local', 'localhost', 'invalid'])
const LENGTH_MAX = 320
const LOCAL_MAX = 64

/** The address in lower case, without blanks around it or a name before it; or what is wrong with it. */
export function readEmail(text: string): { readonly email: string } | { readonly problem: string } {
  const wrapped = /^[^<>]*<([^<>]*)>$/.exec(text.trim())
  const address = (wrapped?.[1] ?? text).trim()
  const at = address.lastIndexOf('@')
  if (at < 0) return { problem: 'An email address must have an @-sign.' }
  const local = address.slice(0, at)
  const domain = address.slice(at + 1).toLowerCase()
  const problem = localProblem(local) ?? domainProblem(domain)
  if (problem) return { problem }
  if (address.length > LENGTH_MAX) return { problem: 'The email address is too long.' }
  // Compared without regard to case, so kept in one.
  return { email: `${local.toLowerCase()}@${domain}` }
}

function localProblem(local: string): string | null {
  if (local === '') return 'There must be something before the @-sign.'
  if (local.length > LOCAL_MAX) return 'The email address is too long before the @-sign.'
  const isDotted = local.startsWith('.') || local.endsWith('.') || local.includes('..')
  return isDotted || !LOCAL.test(local) ? 'The email address contains invalid characters before the @-sign.' : null
}

function domainProblem(domain: string): string | null {
  const labels = domain.split('.')
  if (domain === '') return 'There must be something after the @-sign.'
  if (labels.length < 2) return 'The part after the @-sign is not valid. It should have a period.'
  if (domain.length > 253 || !labels.every((label) => LABEL.test(label)))
    return 'The part after the @-sign contains invalid characters.'
  const top = labels.at(-1)!
  if (/^\d+$/.test(top)) return 'The part after the @-sign is not valid.'
  return RESERVED.has(top)
    ? 'The part after the @-sign is a special-use or reserved name that cannot be used with email.'
    : null
}
