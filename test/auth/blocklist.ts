// Passwords that everybody tries first.
import t from 'tap'
import { COMMON_PASSWORDS, isCommon } from '../../lib/auth/password.ts'

t.test('[Auth 8] there are exactly 36 common passwords, no two the same', async (t) => {
  t.equal(COMMON_PASSWORDS.length, 36)
  t.equal(new Set(COMMON_PASSWORDS).size, 36)
})

t.test('[Auth 8] each is in lower case, and long enough to pass the length rule that comes first', async (t) => {
  for (const password of COMMON_PASSWORDS) {
    t.equal(password, password.toLowerCase())
    t.ok(password.length >= 8, password)
  }
})

t.test('[Auth 8] they are found in any case', async (t) => {
  for (const password of COMMON_PASSWORDS) {
    t.ok(isCommon(password), password)
    t.ok(isCommon(password.toUpperCase()), password.toUpperCase())
    t.ok(isCommon(password.charAt(0).toUpperCase() + password.slice(1)), `${password} with a capital`)
  }
})

t.test('[Auth 8] nothing else is normalised: what only resembles one is allowed', async (t) => {
  for (const password of ['passwörd', ' password', 'password ', 'pa55word', 'password2', 'drowssap', ''])
    t.notOk(isCommon(password), JSON.stringify(password))
})
