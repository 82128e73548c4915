// An error response of the gateway, and whether another attempt may go better.

/** An error response of the gateway. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string | null
  readonly detail: unknown
  readonly retryAfterMs: number | null

  constructor(status: number, detail: unknown, retryAfterMs: number | null) {
    super(textOfDetail(detail) ?? `The gateway answered ${status}`)
    this.name = 'ApiError'
    this.status = status
    this.detail = detail
    this.code = (isRecord(detail) && typeof detail.code === 'string' && detail.code) || null
    this.retryAfterMs = retryAfterMs
  }
}

/** Nobody waits longer for an answer, in ms: a quota's next day or month is for the caller to decide. */
const WAIT_MS_MAX = 300_000

/** A refusal that no later attempt mends, or only one that would be waited for too long. */
export function isFinal(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false
  const { status, retryAfterMs } = error
  return (status < 500 && status !== 429 && status !== 408) || (retryAfterMs ?? 0) > WAIT_MS_MAX
}

export async function refusalOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  const wait = response.headers.get('retry-after') ?? ''
  let detail: unknown = text
  try {
    detail = JSON.parse(text).detail
  } catch {
    // Not JSON: sent by an intermediary.
  }
  // Seconds, or a date of an intermediary.
  return new ApiError(response.status, detail, Number(wait) * 1000 || Date.parse(wait) - Date.now() || null)
}

/** The human-readable part of a refusal. */
function textOfDetail(detail: unknown): string | null {
  if (typeof detail === 'string') return detail.slice(0, 500) || null
  if (Array.isArray(detail)) return detail.map(({ msg }) => String(msg).replace(/^Value error, /, '')).join('; ')
  return isRecord(detail) && typeof detail.message === 'string' ? detail.message : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
