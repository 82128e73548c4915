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

/** Errors worth retrying: no response at all, or one that says so. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ApiError ? error.status >= 500 || error.status === 429 || error.status === 408 : true
}

export async function refusalOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  let detail: unknown = text
  try {
    detail = JSON.parse(text).detail
  } catch {
    // Not JSON: sent by an intermediary.
  }
  return new ApiError(response.status, detail, Number.isFinite(seconds) ? seconds * 1000 : null)
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
