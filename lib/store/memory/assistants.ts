// Assistants in memory.
import { isVisible, type Owner } from '../../scope.ts'
import type { Assistant } from '../../types.ts'
import { patched } from '../sql/assistants.ts'
import type { AssistantReads, AssistantVersion } from '../store.ts'
import { byText, copyOf, type Noun } from './rows.ts'

type AssistantOps = 'assistant.create' | 'assistant.update' | 'assistant.setVersion' | 'assistant.remove'

function versionOf(assistant: Assistant, created_at: string): AssistantVersion {
  const { assistant_id, version } = assistant
  return { assistant_id, version, ...patched(assistant, {}), created_at }
}

export function memoryAssistants(): Noun<AssistantReads, AssistantOps> {
  const byId = new Map<string, Assistant>()
  /** By assistant, newest first. */
  const versions = new Map<string, readonly AssistantVersion[]>()
  const owned = (id: string, owner: Owner): Assistant | null => {
    const found = byId.get(id)
    return found && isVisible(found, owner) ? found : null
  }

  return {
    reads: {
      async get(assistantId, owner) {
        return copyOf(owned(assistantId, owner))
      },
      async list(owner) {
        return [...byId.values()]
          .filter((one) => isVisible(one, owner))
          .sort(
            (one, other) => byText(other.created_at, one.created_at) || byText(other.assistant_id, one.assistant_id)
          )
          .map(copyOf)
      },
      async versions(assistantId, owner) {
        return owned(assistantId, owner) ? copyOf([...(versions.get(assistantId) ?? [])]) : []
      }
    },
    writes: {
      'assistant.create': ({ assistant, max }, undo) => {
        const { assistant_id: id, user_id } = assistant
        const found = byId.get(id)
        if (found) {
          const isTheirs = found.user_id === null || found.user_id === user_id
          return isTheirs ? { outcome: 'there', assistant: found, created: false } : { outcome: 'taken' }
        }
        if ([...byId.values()].filter((one) => one.user_id === user_id).length >= max) return { outcome: 'too_many' }
        const made = { ...assistant, version: 1 }
        undo.set(byId, id, made)
        undo.set(versions, id, [versionOf(made, made.created_at)])
        return { outcome: 'there', assistant: made, created: true }
      },
      'assistant.update': (op, undo) => {
        const { assistant_id: id, set, keep, now } = op
        const before = owned(id, op.user)
        if (!before) return null
        const known = versions.get(id) ?? []
        const version = (known[0]?.version ?? 0) + 1
        const after = { ...before, ...patched(before, set), version, updated_at: now }
        undo.set(byId, id, after)
        undo.set(versions, id, [versionOf(after, now), ...known].slice(0, keep))
        return after
      },
      'assistant.setVersion': (op, undo) => {
        const { assistant_id: id, version, now } = op
        const before = owned(id, op.user)
        const found = versions.get(id)?.find((one) => one.version === version)
        if (!before || !found) return null
        const after = { ...before, ...patched(found, {}), version, updated_at: now }
        undo.set(byId, id, after)
        return after
      },
      'assistant.remove': (op, undo) => {
        if (!owned(op.assistant_id, op.user)) return false
        undo.delete(byId, op.assistant_id)
        undo.delete(versions, op.assistant_id)
        return true
      }
    }
  }
}
