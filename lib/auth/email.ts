// E-mail addresses: validation, and one normalised form for all spellings.
import { domainToASCII, domainToUnicode } from 'node:url'
import type { User } from '../base/accounts.ts'

// No invisible characters: two accounts whose addresses look the same could be confused.
const LOCAL = /^[^"(),:;<>@[\\\]\p{C}\p{Z}]+$/u
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}-]{0,61}[\p{L}\p{N}\p{M}])?$/u
/** Names that belong to nobody [RFC 2606, 6761]; example.com is fine. */
const RESERVED = new Set(['test', 'local', 'localhost', 'invalid'])
/** In characters, like the column of the users table. */
const LENGTH_MAX = 320
/** Before normalisation, which may shorten it. */
const UNITS_MAX = 4 * LENGTH_MAX
const LOCAL_MAX = 64
const DOMAIN_MAX = 253

/** The normalised form for lookup [contract 1.3]. Does not validate. */
function emailKey(text: string): string {
  // Normalising stacked accents is quadratic in the length, and no address is this long.
  if (text.length > UNITS_MAX) return ''
  return text.trim().toLowerCase().normalize('NFC')
}

/** The same address with its domain in Unicode, which is how it is stored, and in ASCII [RFC 5891]. null: it has no such domain. */
function domainForms(email: string): { readonly unicode: string; readonly ascii: string } | null {
  const at = email.lastIndexOf('@') + 1
  const ascii = domainToASCII(email.slice(at))
  return ascii === ''
    ? null
    : { unicode: email.slice(0, at) + domainToUnicode(ascii), ascii: email.slice(0, at) + ascii }
}

/** The account of an address, however its domain is spelled: older accounts are stored as they were typed. */
export async function findAccount<Found = User>(
  users: { byEmail(email: string): Promise<Found | null> },
  text: string
): Promise<Found | null> {
  const email = emailKey(text)
  const { unicode = email, ascii = email } = domainForms(email) ?? {}
  for (const one of new Set([email, unicode, ascii])) {
    const user = await users.byEmail(one)
    if (user) return user
  }
  return null
}

/** The normalised address, without surrounding blanks or a display name; or what is wrong with it. */
export function readEmail(text: string): { readonly email: string } | { readonly problem: string } {
  if (text.length > UNITS_MAX) return { problem: 'The email address is too long.' }
  const wrapped = /^[^<>]*<([^<>]*)>$/.exec(text.trim())
  const email = emailKey(wrapped?.[1] ?? text)
  const at = email.lastIndexOf('@')
  if (at < 0) return { problem: 'An email address must have an @-sign.' }
  const problem = localProblem(email.slice(0, at)) ?? domainProblem(email.slice(at + 1))
  if (problem) return { problem }
  const stored = domainForms(email)?.unicode
  if (stored === undefined) return { problem: 'The part after the @-sign contains invalid characters.' }
  return stored.length > LENGTH_MAX ? { problem: 'The email address is too long.' } : { email: stored }
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
