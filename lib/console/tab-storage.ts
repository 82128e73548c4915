// What a tab keeps over a reload: drafts, and messages that are not sent yet. Nothing of it outlives its user.
const USER = 'colloquy.user'

export function kept(name: string): string | null {
  return sessionStorage.getItem(name)
}

/** @param text '': nothing */
export function keep(name: string, text: string): void {
  sessionStorage.removeItem(name)
  try {
    if (text) sessionStorage.setItem(name, text)
  } catch {
    // The storage is full, so a reload loses the text.
  }
}

/** Forgets what another user of this tab has left. */
export function keepFor(userId: string): void {
  if (kept(USER) === userId) return
  sessionStorage.clear()
  keep(USER, userId)
}
