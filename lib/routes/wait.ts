// Answers that wait for the end of a run: JSON behind blanks that keep proxies from giving up.
import { type Call, HANDLED } from '../http/route.ts'
import { deferredJson } from '../http/streaming-response.ts'
import { Failure } from '../base/errors.ts'
import type { Run } from '../base/types.ts'
import type { OpenStream, Place } from '../run/delivery/streams.ts'
import { readerOf } from './join-request.ts'
import type { Services } from './services.ts'

/** What the answer is when the credential has ended behind its head. */
const { detail, message: error } = new Failure('token_revoked')
const REVOKED = JSON.stringify({ detail, __error__: { error: 'Unauthorized', message: error }, status: 'error', error })

/** An answer that is a failure: a status of its own, or JSON behind a head that was sent already. */
interface FailedAnswer {
  readonly failure: Failure
  readonly json: string
}

interface Waiting {
  readonly run: Run
  readonly headers?: Readonly<Record<string, string>>
  /** The disconnect of who waits may cancel the run. */
  readonly isTheirs: boolean
  /** It does, whatever the run's own on_disconnect. */
  readonly endsRun?: boolean
  /** JSON for a caller whose credential has ended behind the head of the answer. Default: as runs/wait says it. */
  readonly revoked?: string
  /** JSON for the run as it has ended. */
  answerOf(ended: Run): Promise<string | FailedAnswer>
}

/** Answers when the run is over. `place`: the reserved place of the stream that an answer which waits counts as. */
export async function waitForEnd(
  services: Services,
  call: Call,
  place: Place,
  { run, headers = {}, isTheirs, endsRun = false, revoked = REVOKED, answerOf }: Waiting
): Promise<typeof HANDLED> {
  const { registry, runs } = services
  const reply = deferredJson(call, { headers, heldMs: call.dialect.heldMs })
  if (isTheirs) registry.ends.creatorCame(run.run_id)
  // A reset by us is not a disconnect of the client.
  let isReset = false
  const away = new AbortController()
  const waiter: OpenStream = {
    reader: readerOf(services, call),
    isEnding: false,
    beat: () => reply.beat(),
    reset: (why) => {
      isReset = true
      if (why === 'revoked') reply.fail(new Failure('token_revoked'), revoked)
      else reply.reset()
    }
  }
  reply.onClose(() => {
    registry.streams.remove(waiter)
    if (isTheirs && !isReset) registry.ends.creatorLeft(run.run_id, endsRun)
    away.abort()
  })
  registry.streams.add(waiter, place)
  const ended = await runs.waitFor(run, away.signal)
  const answer = ended && (await answerOf(ended))
  if (answer === null) reply.reset()
  else if (typeof answer === 'string') reply.end(answer)
  else reply.fail(answer.failure, answer.json)
  return HANDLED
}
