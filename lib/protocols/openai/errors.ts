// Refusals in OpenAI's form: `{error: {message, type, param, code}}`, of guards and limits too.
import { type Failure, Invalid } from '../../base/errors.ts'
import type { ErrorForm } from '../../http/dialect.ts'

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error'
}
/** Codes by which its clients know a failure, and the parameter it is about. */
const CODES: Readonly<Record<string, { readonly code: string | null; readonly param: string | null }>> = {
  not_authenticated: { code: 'invalid_api_key', param: null },
  token_invalid: { code: 'invalid_api_key', param: null },
  token_expired: { code: 'invalid_api_key', param: null },
  token_revoked: { code: 'invalid_api_key', param: null },
  too_many_runs: { code: 'rate_limit_exceeded', param: null },
  too_many_streams: { code: 'rate_limit_exceeded', param: null },
  assistant_unknown: { code: 'model_not_found', param: 'model' },
  model_unknown: { code: 'model_not_found', param: 'model' },
  model_not_found: { code: 'model_not_found', param: 'model' },
  thread_busy: { code: 'conversation_locked', param: null },
  // Said in words alone.
  refused: { code: null, param: null }
}

/** Ids of ours in these say nothing to its clients. */
const ABSENT: Readonly<Record<string, string>> = {
  run_not_found: 'There is no response with this id',
  thread_not_found: 'There is no conversation with this id'
}

/** What is wrong with a field. */
const FIELD_CODES: Readonly<Record<string, string>> = {
  missing: 'missing_required_parameter',
  extra_forbidden: 'unknown_parameter'
}

/** What its clients make an error of. */
interface ErrorBody {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
}

/** One function: the router tells doors apart by it. */
export const openaiErrors: ErrorForm = (failure) => {
  // An unknown model is absent, whoever says so.
  const status = failure.status === 422 || (failure.code === 'model_unknown' && 400) ? 400 : failure.status
  const isUnknownModel = failure.code === 'model_unknown'
  return { status: isUnknownModel ? 404 : status, headers: failure.headers, json: { error: errorOf(failure) } }
}

export function errorOf(failure: Failure): ErrorBody {
  const { status, code: own, message } = failure
  const type = status >= 500 ? 'server_error' : (TYPES[status] ?? 'invalid_request_error')
  if (failure instanceof Invalid) {
    const [first] = failure.detail
    // A position in the text is no field.
    if (first?.type === 'json_invalid')
      return { message: `The body is no JSON: ${first.ctx?.error}`, type, param: null, code: null }
    const param = first ? pathOf(first.loc.slice(1)) : null
    const said = first ? `${first.msg.replace(/^Value error, /, '')}${param ? ` (${param})` : ''}` : message
    return { message: said, type, param, code: FIELD_CODES[first?.type ?? ''] ?? 'invalid_value' }
  }
  const known = Object.hasOwn(CODES, own) ? CODES[own]! : { code: own, param: null }
  return { message: ABSENT[own] ?? message, type, ...known }
}

/** `input[0].content`, as its errors write it. */
function pathOf(loc: readonly (string | number)[]): string | null {
  const text = loc
    .map((part, at) => (/^\d+$/.test(String(part)) ? `[${part}]` : `${at > 0 ? '.' : ''}${part}`))
    .join('')
  return text === '' ? null : text
}
