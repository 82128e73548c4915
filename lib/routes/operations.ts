// What the command line does with an installation, for administrators of one that serves: doctor, config show, prune, backup, migrate --plan.
import type { Readable } from 'node:stream'
import * as v from 'valibot'
import { type Actor, actorOf } from '../auth/audit.ts'
import { type Call, HANDLED, type Route, route } from '../http/route.ts'
import { closedObject } from '../http/schema.ts'
import { sendDownload } from '../http/streaming-response.ts'
import { timestamp } from '../base/types.ts'
import {
  anObject,
  arrayOf,
  file,
  int,
  mapOf,
  one,
  oneOf,
  optionalText,
  orNull,
  shaped,
  text,
  yesNo
} from './answers.ts'

/** Secrets stay here, and who wishes for them is told so. */
const backupBody = closedObject({ with_secrets: v.optional(v.literal(false), false) })

/** As lib/operator/operations.ts has them. Each kind is done one at a time. */
interface InstallationOperations {
  config(): { readonly file: string | null; readonly options: unknown; readonly warnings: readonly string[] }
  doctor(): Promise<readonly { readonly check: string; readonly is: 'good' | 'warn' | 'bad'; readonly text: string }[]>
  plan(): Promise<object>
  countOld(signal: AbortSignal): Promise<object>
  prune(by: Actor): Promise<object>
  backup(by: Actor, signal: AbortSignal, take: (file: Readable) => Promise<void>): Promise<void>
}

export function operationRoutes(operations: InstallationOperations): Route[] {
  const backup = async (call: Call) => {
    const name = `colloquy-${timestamp().slice(0, 10)}.zip`
    await operations.backup(actorOf(call), untilGone(call), (made) =>
      sendDownload(call, made, { name, type: 'application/zip' })
    )
    return HANDLED
  }
  const doctor = async () => {
    const findings = await operations.doctor()
    const worst = (['bad', 'warn'] as const).find((is) => findings.some((one) => one.is === is)) ?? 'good'
    return { json: { is: worst, findings } }
  }

  const reads = { method: 'GET', admin: true, permission: 'admin:read', rule: null } as const
  const writes = { method: 'POST', admin: true, permission: 'admin:users', rule: null } as const
  const at = (path: string) => `/api/v1/admin/${path}`
  const is = oneOf('good', 'warn', 'bad')
  const texts = arrayOf(text)
  return [
    route({
      ...reads,
      path: at('doctor'),
      summary: 'What is wrong with the installation, and how to mend it; administrators and auditors',
      answers: one(shaped({ is, findings: arrayOf(shaped({ check: text, is, text })) })),
      refusals: [409],
      handler: doctor
    }),
    route({
      ...reads,
      path: at('config'),
      summary: 'Every option as it counts on this process, secrets masked; administrators and auditors',
      answers: one(shaped({ file: optionalText, options: anObject, warnings: texts })),
      handler: () => ({ json: operations.config() })
    }),
    route({
      ...reads,
      path: at('migration'),
      summary: 'What this version would change in the schema of the database; administrators and auditors',
      answers: one(
        shaped({
          backend: text,
          schema: int,
          program: int,
          min_reader: int,
          min_writer: int,
          bytes: int,
          steps: arrayOf(shaped({ version: int, phase: text, stop: yesNo, rows: orNull(int) })),
          processes: arrayOf(shaped({ schema: int, count: int }))
        })
      ),
      refusals: [409],
      handler: async () => ({ json: await operations.plan() })
    }),
    route({
      ...reads,
      path: at('prune'),
      summary: 'Count what `retention` has the server delete, and deletes nothing; administrators and auditors',
      answers: one(mapOf(shaped({ count: int, before: optionalText }))),
      refusals: [409],
      handler: async (call) => ({ json: await operations.countOld(untilGone(call)) })
    }),
    route({
      ...writes,
      path: at('prune'),
      summary: 'Rewrite the SQLite file without what was deleted, while writers wait; administrators only',
      answers: one(shaped({ bytes_before: int, bytes_after: int })),
      refusals: [409],
      handler: async (call) => ({ json: await operations.prune(actorOf(call)) })
    }),
    route({
      ...writes,
      path: at('backup'),
      body: backupBody,
      bodyOptional: true,
      summary: 'Make a backup of the installation, without its secrets, and send it; administrators only',
      answers: file('application/zip'),
      refusals: [409],
      handler: backup
    })
  ]
}

/** Aborts when the client has gone before it was answered. */
function untilGone({ res }: Call): AbortSignal {
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  return gone.signal
}
