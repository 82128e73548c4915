// The way from a project's Python code back to this server, for LangGraph's client without a URL (loopback.py): each call has a credential
// of whoever the code works for.
import type { Caller, Door } from '../../base/loopback.ts'

/** What its process asks for. @param callerOf whoever a run, or a request to the project's app, works for; null: nobody */
export function doorHandlers(door: Door, callerOf: (who: string | number) => Caller | null) {
  return {
    openDoor: (who: string | number | null) => door.open(who === null ? null : callerOf(who)),
    closeDoor: (token: string) => door.close(token)
  }
}
