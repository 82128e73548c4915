// Assistants as rows of both databases: the current version in one table, all versions in another.
import type { Assistant, AssistantContent } from '../../base/types.ts'
import type { AssistantPatch, AssistantReads, AssistantVersion } from '../store.ts'
import { needsNoHold } from './holds.ts'
import { ask, ownedBy, places, type StepReads, type Steps, type StepWrites, withObjects } from './steps.ts'

interface ContentRow {
  readonly graph_id: string
  readonly name: string
  readonly description: string | null
  readonly config_json: string
  readonly context_json: string
  readonly metadata_json: string
}
type Jsons = 'config' | 'context' | 'metadata'
type AssistantRow = Omit<Assistant, Jsons> & ContentRow
type VersionRow = Omit<AssistantVersion, Jsons> & ContentRow

const CONTENT = 'graph_id, name, description, config_json, context_json, metadata_json'
const COLUMNS = `assistant_id, user_id, version, ${CONTENT}, created_at, updated_at`
const VERSION_COLUMNS = `assistant_id, version, ${CONTENT}, created_at`

function toContent<Row extends ContentRow>({ config_json, context_json, metadata_json, ...row }: Row) {
  return withObjects(row, { config: config_json, context: context_json, metadata: metadata_json })
}

function contentOf({ graph_id, name, description, config, context, metadata }: AssistantContent) {
  return [graph_id, name, description, JSON.stringify(config), JSON.stringify(context), JSON.stringify(metadata)]
}

function patched(before: AssistantContent, set: AssistantPatch): AssistantContent {
  const { graph_id, name, description, config, context } = { ...before, ...set }
  return { graph_id, name, description, config, context, metadata: { ...before.metadata, ...set.metadata } }
}

function* get(assistantId: string, user: string | null): Steps<Assistant | null> {
  const sql = `SELECT ${COLUMNS} FROM assistants WHERE assistant_id = $2 AND ${ownedBy(1)}`
  const [row] = yield* ask<AssistantRow>(sql, user, assistantId)
  return row ? toContent(row) : null
}

function* list(user: string | null): Steps<Assistant[]> {
  const sql = `SELECT ${COLUMNS} FROM assistants WHERE ${ownedBy(1)} ORDER BY created_at DESC, assistant_id DESC`
  return (yield* ask<AssistantRow>(sql, user)).map(toContent)
}

function* versions(assistantId: string, user: string | null): Steps<AssistantVersion[]> {
  if (!(yield* get(assistantId, user))) return []
  const sql = `SELECT ${VERSION_COLUMNS} FROM assistant_versions WHERE assistant_id = $1 ORDER BY version DESC`
  return (yield* ask<VersionRow>(sql, assistantId)).map(toContent)
}

export const assistantReads: StepReads<AssistantReads> = { get, list, versions }

type AssistantOps = 'assistant.create' | 'assistant.update' | 'assistant.setVersion' | 'assistant.remove'

export const assistantWrites: StepWrites<AssistantOps> = {
  *'assistant.create'({ assistant, max }) {
    const { assistant_id, user_id, created_at, updated_at } = assistant
    const found = yield* get(assistant_id, null)
    if (found) {
      const isVisible = found.user_id === null || found.user_id === user_id
      return isVisible ? { outcome: 'there', assistant: found, created: false } : { outcome: 'taken' }
    }
    const count = 'SELECT count(*) AS total FROM assistants WHERE user_id = $1'
    const [counted] = yield* ask<{ total: number }>(count, user_id)
    if (Number(counted?.total) >= max) return { outcome: 'too_many' }
    const insert = `INSERT INTO assistants (${COLUMNS}) VALUES (${places(11)})`
    yield* ask(insert, assistant_id, user_id, 1, ...contentOf(assistant), created_at, updated_at)
    yield* addVersion(assistant_id, 1, assistant, created_at)
    return { outcome: 'there', assistant: { ...assistant, version: 1 }, created: true }
  },

  *'assistant.update'({ assistant_id, set, keep, user, now }) {
    // The row is locked first, so that two processes cannot assign the same version.
    const raise = `UPDATE assistants SET last_version = last_version + 1, version = last_version + 1, updated_at = $3
      WHERE assistant_id = $2 AND ${ownedBy(1)} RETURNING ${COLUMNS}`
    const [row] = yield* ask<AssistantRow>(raise, user, assistant_id, now)
    if (!row) return null
    const content = patched(toContent(row), set)
    yield* setContent(assistant_id, content)
    yield* addVersion(assistant_id, row.version, content, now)
    const forget = `DELETE FROM assistant_versions WHERE assistant_id = $1 AND version <= $2 AND NOT EXISTS (
      SELECT 1 FROM holds JOIN assistants AS a ON a.user_id = holds.target WHERE holds.kind = 'user' AND a.assistant_id = $1)`
    yield* ask(forget, assistant_id, row.version - keep)
    return { ...toContent(row), ...content }
  },

  *'assistant.setVersion'({ assistant_id, version, user, now }) {
    const find = `SELECT ${VERSION_COLUMNS} FROM assistant_versions WHERE assistant_id = $1 AND version = $2`
    const [found] = yield* ask<VersionRow>(find, assistant_id, version)
    if (!found) return null
    const choose = `UPDATE assistants SET version = $3, updated_at = $4
      WHERE assistant_id = $2 AND ${ownedBy(1)} RETURNING ${COLUMNS}`
    const [row] = yield* ask<AssistantRow>(choose, user, assistant_id, version, now)
    if (!row) return null
    const content = patched(toContent(found), {})
    yield* setContent(assistant_id, content)
    return { ...toContent(row), ...content }
  },

  *'assistant.remove'({ assistant_id, user }) {
    yield* needsNoHold('user', user)
    const sql = `DELETE FROM assistants WHERE assistant_id = $2 AND ${ownedBy(1)} RETURNING assistant_id`
    if ((yield* ask(sql, user, assistant_id)).length === 0) return false
    yield* ask('DELETE FROM assistant_versions WHERE assistant_id = $1', assistant_id)
    return true
  }
}

function* setContent(assistantId: string, content: AssistantContent): Steps<void> {
  const sql = `UPDATE assistants SET graph_id = $1, name = $2, description = $3, config_json = $4, context_json = $5,
    metadata_json = $6 WHERE assistant_id = $7`
  yield* ask(sql, ...contentOf(content), assistantId)
}

function* addVersion(id: string, version: number, content: AssistantContent, now: string): Steps<void> {
  const sql = `INSERT INTO assistant_versions (${VERSION_COLUMNS}) VALUES (${places(9)})`
  yield* ask(sql, id, version, ...contentOf(content), now)
}
