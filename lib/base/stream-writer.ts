// The part of a response a joiner needs. http/ implements it, run/ writes to it, and neither knows the other.
/** Why a stream is reset: its credential was revoked, the process stops, it stalled, or it failed. */
export type ResetReason = 'revoked' | 'stopping' | 'stalled' | 'broken'

export interface StreamWriter {
  /** False: no space until `onDrain`. Bytes are shared with other streams and must not be changed. */
  write(bytes: Uint8Array): boolean
  /** Writes the last bytes and ends the stream cleanly. */
  end(last: Uint8Array): void
  /** Resets the connection, so that clients reconnect (a FIN would look like success). */
  reset(why?: ResetReason): void
  onDrain(listener: () => void): void
  /** Called once, whichever side closed it. */
  onClose(listener: () => void): void
}
