// The audit as rows of both databases.
import type { AuditEntry } from '../../base/accounts.ts'
import type { JsonObject } from '../../base/types.ts'
import type { AuditReads, AuditSearch } from '../store.ts'
import { ask, type Param, places, type StepReads, type Steps, type StepWrites } from './steps.ts'

type AuditRow = Omit<AuditEntry, 'details'> & { readonly details_json: string }

const COLUMNS = 'at, action, actor, target, address, request_id, details_json'

function* list({ action, about, since, before, limit }: AuditSearch): Steps<AuditEntry[]> {
  const params: Param[] = []
  const conditions: string[] = []
  const where = (value: Param | undefined, condition: (place: string) => string): void => {
    if (value === undefined) return
    params.push(value)
    conditions.push(condition(`$${params.length}`))
  }
  where(action, (it) => `action = ${it}`)
  where(about, (it) => `(actor = ${it} OR target = ${it})`)
  where(since, (it) => `at >= ${it}`)
  where(before, (it) => `audit_id < ${it}`)
  params.push(limit)
  const filter = conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''
  const sql = `SELECT audit_id, ${COLUMNS} FROM audit ${filter} ORDER BY audit_id DESC LIMIT $${params.length}`
  const rows = yield* ask<AuditRow>(sql, ...params)
  // Only written from an object.
  return rows.map(({ details_json, ...row }) => ({ ...row, details: JSON.parse(details_json) as JsonObject }))
}

export const auditReads: StepReads<AuditReads> = { list }

export const auditWrites: StepWrites<'audit.add'> = {
  *'audit.add'({ entry }) {
    const { at, action, actor, target, address, request_id, details } = entry
    const values = [at, action, actor, target, address, request_id, JSON.stringify(details)]
    yield* ask(`INSERT INTO audit (${COLUMNS}) VALUES (${places(7)})`, ...values)
    return null
  }
}
