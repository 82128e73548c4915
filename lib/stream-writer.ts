// The little a joiner needs of a response. http/ makes stream writers, run/ writes to them, and neither knows the other.
/** Why a stream is broken off: its credential does not stand any more, the process ends, nobody reads it, or it cannot go on. */
export type ResetReason = 'revoked' | 'stopping' | 'stalled' | 'broken'

export interface StreamWriter {
  /** False: no space; `onDrain` tells when there is again. Bytes are shared with other streams and must not be changed. */
  write(bytes: Uint8Array): boolean
  /** These bytes are the last, all was said with them: a clean end. */
  end(last: Uint8Array): void
  /** Broken off by us: a reset, so that clients come back (a FIN would look like success). */
  reset(why?: ResetReason): void
  onDrain(listener: () => void): void
  /** Once, whoever closed it. */
  onClose(listener: () => void): void
}
