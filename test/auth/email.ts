// E-mail addresses: one form for every way to write the same one.
import fc from 'fast-check'
import t from 'tap'
import type { User } from '../../lib/base/accounts.ts'
import { findAccount, readEmail } from '../../lib/auth/email.ts'

t.test('what is written in another way is the same address', async (t) => {
  for (const text of [
    'ann@example.com',
    'ANN@Example.COM',
    '  ann@example.com\n',
    'Ann Lee <Ann@example.com>',
    '<ann@example.com>'
  ])
    t.strictSame(readEmail(text), { email: 'ann@example.com' }, JSON.stringify(text))
  t.strictSame(readEmail('Zo\u00e9@example.com'), readEmail('zoe\u0301@example.com'), 'composed and decomposed letters')
})

t.test('ordinary and odd addresses are taken', async (t) => {
  for (const text of [
    'a@b.co',
    'first.last+tag@sub.example.com',
    "o'brien@example.com",
    '用户@example.com',
    'a@münchen.example',
    'a@3com.com',
    `${'a'.repeat(64)}@example.com`
  ])
    t.strictSame(readEmail(text), { email: text }, text)
})

t.test('what is no address is refused with a reason', async (t) => {
  const refused = {
    'An email address must have an @-sign.': ['', 'plain', 'Ann <plain>'],
    'There must be something before the @-sign.': ['@example.com', ' @example.com'],
    'There must be something after the @-sign.': ['a@', 'a@ '],
    'The email address is too long before the @-sign.': [`${'a'.repeat(65)}@example.com`],
    'The email address contains invalid characters before the @-sign.': [
      'a b@example.com',
      'a@@example.com',
      '"a"@example.com',
      '.a@example.com',
      'a.@example.com',
      'a..b@example.com',
      'a\u0000b@example.com',
      'a\u200bb@example.com',
      'a\u202eb@example.com',
      'a\ud800b@example.com',
      'a\nb@example.com'
    ],
    'The part after the @-sign is not valid. It should have a period.': ['a@b', 'a@localhost'],
    'The part after the @-sign contains invalid characters.': [
      'a@example..com',
      'a@exa mple.com',
      'a@-example.com',
      'a@example-.com',
      'a@example.com.',
      'a@[127.0.0.1]',
      `a@${'b'.repeat(64)}.com`,
      `a@${'b.'.repeat(127)}com`
    ],
    'The part after the @-sign is not valid.': ['a@127.0.0.1'],
    'The part after the @-sign is a special-use or reserved name that cannot be used with email.': [
      'a@site.test',
      'a@site.local',
      'a@site.LOCALHOST',
      'a@site.invalid'
    ]
  }
  for (const [problem, texts] of Object.entries(refused))
    for (const text of texts) t.strictSame(readEmail(text), { problem }, JSON.stringify(text).slice(0, 60))
})

/** Accounts stored under these texts; the text is their name. */
const stored = (...emails: string[]) => ({
  // Nothing else of them is asked for.
  byEmail: async (email: string) => (emails.includes(email) ? ({ email } as User) : null)
})

t.test('an address is looked up under the form in which it was kept, however it is written', async (t) => {
  const local = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
  const address = fc.oneof(
    fc.emailAddress(),
    local.map((text) => `${text}@Example.com`),
    local.map((text) => `${text}@BÜCHER.example`)
  )
  await fc.assert(
    fc.asyncProperty(address, async (text) => {
      const read = readEmail(text)
      if ('problem' in read) return true
      const again = readEmail(read.email)
      if (!('email' in again) || again.email !== read.email) return false
      return (await findAccount(stored(read.email), text))?.email === read.email
    })
  )
  t.equal((await findAccount(stored('ann@example.com'), ' Ann@Example.COM '))?.email, 'ann@example.com')
  t.equal((await findAccount(stored('no address'), 'no address'))?.email, 'no address', 'a lookup asks no questions')
})

t.test(
  'a domain is one in Unicode and in ASCII, and who registered with either before still signs in with both',
  async (t) => {
    const [unicode, ascii] = ['a@bücher.example', 'a@xn--bcher-kva.example']
    for (const text of [unicode, ascii, 'A@XN--BCHER-KVA.example', 'a@ｂücher.example'])
      t.strictSame(readEmail(text), { email: unicode }, text)
    for (const old of [unicode, ascii])
      for (const text of [unicode, ascii]) t.equal((await findAccount(stored(old), text))?.email, old)
    for (const text of [unicode, ascii])
      t.equal((await findAccount(stored(unicode, ascii), text))?.email, text, 'who has two keeps both')
  }
)

t.test('an address of a megabyte is refused at once', async (t) => {
  for (const text of ['@'.repeat(1 << 20), `${'<'.repeat(1 << 20)}a@example.com>`, `a@${'b.'.repeat(1 << 19)}com`])
    t.match(readEmail(text), { problem: String })
})
