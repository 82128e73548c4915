// What a tool server may send: the size of a message, how many lines a second, and nothing any more for a request that is over.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { JSONRPCMessage, RequestId, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import { warnUnexpected } from '../../base/errors.ts'
import type { JsonShape } from '../../base/json.ts'
import { onAbort } from '../../base/waiting.ts'

/** Maximum bytes of one message. */
export const MESSAGE_BYTES = 16 << 20
/** Maximum values of one: each costs more than its bytes to parse and to check. Twenty thousand plain tools have as many. */
const MESSAGE_VALUES = 110_000

/** @throws Error for a message with too many values */
export function checkValues({ values }: JsonShape): void {
  if (values > MESSAGE_VALUES) throw new Error(`A message of more than ${MESSAGE_VALUES} values`)
}

// ------------------------------------------------------------------------------------------------ pace

export const LINE_FEED = 0x0a
/** Lines passed on in a turn of the loop: a message is one or two of them, and each is parsed and checked. */
const LINES_A_TURN = 64
/** Lines a second, and at once. Progress that somebody looks at is a hundredth of it. */
const LINES_A_SECOND = 2_000

/** What a server sends faster than this waits at its side: its notifications, progress and questions have no end. */
export class LinePace {
  #left = LINES_A_SECOND
  #at = performance.now()

  /** Resolves when as many lines as were taken may be followed by others, at the earliest in the next turn of the loop. */
  async took(lines: number): Promise<void> {
    const now = performance.now()
    this.#left = Math.min(LINES_A_SECOND, this.#left + ((now - this.#at) / 1_000) * LINES_A_SECOND) - lines
    this.#at = now
    if (this.#left >= 0) await nextTurn()
    else await sleep((-this.#left / LINES_A_SECOND) * 1_000)
  }
}

/** The first of the bytes, with no more lines than a turn has, and how many of them end in it. */
export function partOfTurn(bytes: Buffer): { readonly part: Buffer; readonly lines: number } {
  let lines = 0
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1))
    if (++lines === LINES_A_TURN) return { part: bytes.subarray(0, at + 1), lines }
  return { part: bytes, lines }
}

// ------------------------------------------------------------------------------------------------ requests

/** Answers to a server's own questions that it has not taken yet. It has no business asking many things: none is offered to it. */
const ANSWERS_MAX = 64
/** Time in ms that a stream has to end by itself behind its answer: its connection can be used again then. */
const GRACE_MS = 1_000

/**
 * Ends what comes for a request, with its connection, when the request is over: answered, too late, or not wanted any more. A server may
 * go on sending for ever. One that asks more than it takes answers for is closed, with a sentence.
 */
export function withBounds<T extends Transport>(transport: T): T {
  const open = new Map<unknown, AbortController>()
  let answers = 0
  const send = transport.send.bind(transport)

  const end = (id: unknown) => {
    open.get(id)?.abort()
    open.delete(id)
  }
  const endSoon = async (id: unknown) => {
    await sleep(GRACE_MS, undefined, { ref: false })
    end(id)
  }
  const request = async (id: RequestId, message: JSONRPCMessage, options?: TransportSendOptions) => {
    const own = new AbortController()
    open.set(id, own)
    if (options?.requestSignal) onAbort(options.requestSignal, () => end(id))
    try {
      await send(message, { ...options, requestSignal: own.signal })
    } catch (error) {
      open.delete(id)
      throw error
    }
  }
  const answer = async (message: JSONRPCMessage, options?: TransportSendOptions) => {
    if (answers === ANSWERS_MAX) {
      transport.onerror?.(new Error(`It asks more than ${ANSWERS_MAX} things at once`))
      return transport.close()
    }
    answers++
    await send(message, options).finally(() => answers--)
  }

  transport.send = async (message, options) => {
    if (!('method' in message)) return answer(message, options)
    if ('id' in message) return request(message.id, message, options)
    if (message.method === 'notifications/cancelled') end(message.params?.requestId)
    await send(message, options)
  }
  // The client calls it before it reads a message itself.
  transport.onmessage = (message) => {
    if (!('method' in message) && open.has(message.id)) endSoon(message.id).catch(warnUnexpected)
  }
  return transport
}
