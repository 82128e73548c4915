// JSON schemas of accounts, of what signs in to them, and of what is kept of both.
import type { JsonObject } from '../base/types.ts'
import {
  anObject,
  arrayOf,
  int,
  mapOf,
  number,
  oneOf,
  optionalText,
  optionalTime,
  orNull,
  ref,
  shaped,
  text,
  time,
  yesNo
} from './answers.ts'

const quotaMax = { max: orNull(number) }
const quotaUse = { ...quotaMax, used: number }
const quotas = shaped({
  runs_per_day: shaped({ ...quotaUse, resets_at: time }),
  tokens_per_day: shaped({ ...quotaUse, resets_at: time }),
  money_per_month: shaped({ ...quotaUse, resets_at: time, currency: text }),
  bytes: shaped(quotaUse),
  runs_at_once: shaped(quotaUse),
  requests_per_second: shaped(quotaMax)
})
const threadLink = { link_id: text, thread_id: text, files: yesNo, created_at: time, expires_at: time }

export const ACCOUNT_SCHEMAS: Readonly<Record<string, JsonObject>> = {
  User: shaped(
    { id: text, email: text, system_role: oneOf('admin', 'user'), needs_setup: yesNo },
    { oauth_provider: optionalText, quotas }
  ),

  ApiToken: shaped(
    {
      token_id: text,
      name: text,
      scopes: arrayOf(text),
      created_at: time,
      expires_at: optionalTime,
      last_used_at: optionalTime
    },
    { token: { type: 'string', description: 'The secret; only in the response that creates it' } }
  ),
  Account: shaped(
    {
      id: text,
      email: text,
      system_role: oneOf('admin', 'auditor', 'user', 'service'),
      created_at: time,
      needs_setup: yesNo,
      oauth_provider: optionalText,
      disabled_at: optionalTime,
      quota: orNull(mapOf(number))
    },
    { last_seen_at: optionalTime, password_link: ref('PasswordLink') }
  ),
  PasswordLink: shaped({ token: text, url: text, expires_at: optionalTime }),
  Session: shaped({
    session_id: text,
    created_at: time,
    last_used_at: time,
    device: optionalText,
    address: optionalText,
    is_current: yesNo
  }),
  AuditEntry: shaped({
    audit_id: int,
    at: time,
    action: text,
    actor: text,
    target: optionalText,
    address: optionalText,
    request_id: optionalText,
    details: anObject
  }),
  Hold: shaped({
    hold_id: text,
    thread_id: optionalText,
    user_id: optionalText,
    reason: text,
    created_by: text,
    created_at: time
  }),
  ThreadLink: shaped(threadLink),
  NewThreadLink: shaped({
    ...threadLink,
    link: { type: 'string', description: 'The secret; only in the response that creates it' },
    url: { type: 'string', description: 'The page with the secret, to be passed on' }
  }),
  Invitation: shaped(
    { invitation_id: text, name: text, created_at: time, expires_at: optionalTime },
    { invitation: { type: 'string', description: 'The secret; only in the response that creates it' } }
  )
}
