// The log of a server: JSON, an object a line, or a line for people.
import { writeSync } from 'node:fs'
import type { Logger, pino as Pino } from 'pino'
import { currentRequestId, currentTrace } from '../lib/base/scope.ts'
import type { Config } from '../lib/config/config.ts'

const STDERR = 2
const LEVELS: Readonly<Record<number, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal'
}
/** Of every line, and of no use to people. */
const LEFT_OUT: ReadonlySet<string> = new Set(['level', 'time', 'pid', 'hostname', 'msg'])

export function openLog(pino: typeof Pino, { format, level }: Config['log']): Logger {
  return format === 'json'
    ? pino({ level, mixin }, pino.destination({ dest: STDERR, sync: true }))
    : pino({ level, mixin }, { write: (line: string) => void writeSync(STDERR, textOf(line)) })
}

/** Of the request in whose course the line is written, or of the one that made its run. */
function mixin(): object {
  const [id, trace] = [currentRequestId(), currentTrace()]
  return { ...(id !== null && { request_id: id }), ...(trace && { trace_id: trace.traceparent.slice(3, 35) }) }
}

/** `2026-01-01T00:00:00.000Z warn what has happened name=value` */
function textOf(line: string): string {
  // Pino has written it.
  const fields = JSON.parse(line) as Record<string, unknown>
  const { level, time, msg } = fields as { level: number; time: number; msg?: string }
  const rest = Object.entries(fields).filter(([name]) => !LEFT_OUT.has(name))
  const shown = rest.map(
    ([name, value]) => ` ${name}=${typeof value === 'string' && /^\S+$/.test(value) ? value : JSON.stringify(value)}`
  )
  return `${new Date(time).toISOString()} ${LEVELS[level] ?? level} ${msg ?? ''}${shown.join('')}\n`
}
