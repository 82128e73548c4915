// Ids of the Model Context Protocol (MCP): of an event, which says where its stream goes on and for which request, of a session, which
// says what its client can do, and of a question. Nothing is kept of them: every process can read them.
import { randomUUID } from 'node:crypto'
import { parseJson } from '../../http/body.ts'
import { isId } from '../../http/schema.ts'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import { isRpcId, type RpcId } from '../json-rpc.ts'
import type { FramePlace } from '../places.ts'

/** Revisions with a handshake and sessions, newest first; and the one without. */
export const HANDSHAKE_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26']
export const STATELESS_VERSION = '2026-07-28'
export const VERSIONS = [STATELESS_VERSION, ...HANDSHAKE_VERSIONS]

/** The request that a stream answers. */
export interface StreamOf {
  readonly id: RpcId
  /** Of its progress; null: it wants none. */
  readonly token: RpcId | null
  /** Of the revision without sessions. */
  readonly isStateless: boolean
  /** Its client can ask its user. */
  readonly canAsk: boolean
  /** The task it is about. */
  readonly task: string
  /** It has asked for the result of a task. */
  readonly isOfTask: boolean
}

export interface EventAt {
  readonly stream: StreamOf
  readonly run: string
  /** null: the beginning of the run. */
  readonly after: FramePlace | null
}

const ID = /^([\w-]{1,64})\.(?:(\d{1,16})-(\d{1,15})\.(\d{1,9}))?\.([\w-]{1,2048})$/

/** What all ids of a stream end with. */
export function streamText({ id, token, isStateless, canAsk, task, isOfTask }: StreamOf): string {
  return Buffer.from(JSON.stringify([id, token, isStateless, canAsk, task, isOfTask])).toString('base64url')
}

export function eventId(run: string, at: FramePlace | null, stream: string): string {
  return `${run}.${at ? `${at.epoch}-${at.n}.${at.part}` : ''}.${stream}`
}

/** null: it is none of ours. */
export function eventIn(text: string): EventAt | null {
  const [, run, epoch, n, part, about] = ID.exec(text) ?? []
  const stream = about === undefined ? null : streamIn(about)
  if (run === undefined || stream === null) return null
  const after = epoch === undefined ? null : { epoch: Number(epoch), n: Number(n), part: Number(part) }
  return { stream, run, after }
}

function streamIn(text: string): StreamOf | null {
  const given = jsonIn(Buffer.from(text, 'base64url'))
  if (!Array.isArray(given)) return null
  const [id, token = null, isStateless, canAsk, task, isOfTask] = given
  if (!isRpcId(id) || !(token === null || isRpcId(token)) || typeof task !== 'string' || !isId(task)) return null
  return { id, token, isStateless: isStateless === true, canAsk: canAsk === true, task, isOfTask: isOfTask === true }
}

function jsonIn(bytes: Buffer): Json {
  try {
    // JSON of a stranger: nothing else comes out of it.
    return parseJson(bytes) as Json
  } catch {
    return null
  }
}

// -------------------------------------------------------------------------------------------------- sessions

interface Session {
  readonly id: string
  readonly canAsk: boolean
}

export function newSession(canAsk: boolean): string {
  return `${canAsk ? 'ask' : 'mute'}-${randomUUID()}`
}

/** null: it is none of ours. */
export function sessionIn(text: string): Session | null {
  const [, kind] = /^(ask|mute)-[0-9a-f-]{36}$/.exec(text) ?? []
  return kind === undefined ? null : { id: text, canAsk: kind === 'ask' }
}

/** A client that can show a form: one that names no mode can. */
export function canAsk({ elicitation }: JsonObject): boolean {
  if (!isObject(elicitation)) return false
  return 'form' in elicitation || !('url' in elicitation)
}

// ------------------------------------------------------------------------------------------------- questions

const QUESTION = 'question-'

/** The id of the request with which a client is asked, by the run that asks. */
export function questionId(run: string): string {
  return QUESTION + run
}

/** The run that asks; null: the answer is to nothing of ours. */
export function questionIn(id: Json | undefined): string | null {
  return typeof id === 'string' && id.startsWith(QUESTION) ? id.slice(QUESTION.length) : null
}
